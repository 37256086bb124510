"""Models in several files, as their names say: `model-00001-of-00003.gguf`."""

from __future__ import annotations

import re
from pathlib import Path

_FIRST = re.compile(r"(.+)-00001-of-([0-9]{5})\.gguf", re.DOTALL)


def parts_of(path: Path) -> list[Path]:
    """Of the files that llama.cpp opens with this one, those that are there, itself first.

    It finds the others beside it, by these names alone.
    """
    if not (first := _FIRST.fullmatch(path.name)):
        return [path]
    names = (f"{first[1]}-{n:05d}-of-{first[2]}.gguf" for n in range(2, int(first[2]) + 1))
    return [path, *filter(Path.is_file, map(path.with_name, names))]
