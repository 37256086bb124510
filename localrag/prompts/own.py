"""Prompts in a person's own words, in place of localrag's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Formatter

from localrag.errors import ConfigError
from localrag.languages import CODES, LanguageCode
from localrag.prompts import render, template
from localrag.system.files import make_folder, write_output

OWN = ("system", "answer", "answer_or_refuse", "write_from_passages", "without_documents")
"""Those that say how an answer is written. The ones that grade are not among them: the thresholds
of the settings were measured with their words."""

_HINT = (
    "`localrag config prompts FOLDER` writes localrag's prompts into a folder as a starting point."
)


@dataclass(frozen=True, slots=True)
class Wording:
    """The prompts to answer with: (name, language) -> text for those in a person's own words."""

    own: Mapping[tuple[str, LanguageCode], str] = field(default_factory=dict)

    def render(self, name: str, language: LanguageCode, /, **values: str) -> str:
        """As `prompts.render`, with the person's words where there are any."""
        text = self.own.get((name, language))
        return render(name, language, **values) if text is None else text.format(**values)


def read_wording(folder: Path) -> Wording:
    """The prompts that lie in `folder` as en/NAME.txt and zh/NAME.txt; others are localrag's.

    Raises `ConfigError` for a folder without any, a name that is none of `OWN`, and placeholders
    other than those of localrag's own text.
    """
    own: dict[tuple[str, LanguageCode], str] = {}
    for language in CODES:
        for file in sorted((folder / language).glob("*.txt")):
            if file.stem not in OWN:
                raise ConfigError(
                    "{path} is not a prompt that can be replaced (answer.prompts).",
                    hint="These can be replaced: {names}.",
                    path=file,
                    names=", ".join(OWN),
                )
            own[file.stem, language] = _read(file, template(file.stem, language))
    if not own:
        raise ConfigError(
            "{path} contains no prompts: neither en/NAME.txt nor zh/NAME.txt (answer.prompts).",
            hint=_HINT,
            path=folder,
        )
    return Wording(own)


def write_prompts(folder: Path) -> list[Path]:
    """Write localrag's own texts of `OWN` into a folder, for a person to change.

    Raises `ConfigError` where one is there already or cannot be written.
    """
    files = {
        folder / language / f"{name}.txt": template(name, language)
        for language in CODES
        for name in OWN
    }
    for file in files:
        if file.exists():
            raise ConfigError(
                "{path} already exists.",
                hint="It may contain your changes: name another folder, or remove it first.",
                path=file,
            )
    try:
        for file, text in files.items():
            make_folder(file.parent)
            write_output(file, text + "\n")
    except OSError as error:
        raise ConfigError(
            "The prompts cannot be written to {path}: {reason}.",
            hint="Name a folder that you are allowed to write to.",
            path=folder,
            reason=error.strerror,
        ) from error
    return list(files)


def _read(file: Path, shipped: str) -> str:
    try:
        text = file.read_text(encoding="utf-8-sig").strip()
        placeholders = _placeholders(text)
    except OSError as error:
        raise ConfigError(
            "The prompt {path} cannot be read: {reason}.",
            hint=_HINT,
            path=file,
            reason=error.strerror,
        ) from error
    except ValueError as error:  # not UTF-8, or a brace that opens nothing
        raise ConfigError(
            "The prompt {path} cannot be read: {reason}.",
            hint=(
                "It must be UTF-8; write a brace that is not a placeholder twice: {{{{ and }}}}."
            ),
            path=file,
            reason=error,
        ) from error
    wanted = _placeholders(shipped)
    if not text or placeholders != wanted:
        raise ConfigError(
            "The prompt {path} must have these placeholders and no others: {names}.",
            hint=_HINT,
            path=file,
            names=", ".join(f"{{{name}}}" for name in sorted(wanted)) or "-",
        )
    return text


def _placeholders(text: str) -> set[str]:
    """Names in braces, with whatever formatting stands there (which no prompt has)."""
    return {
        f"{name}{'!' + conversion if conversion else ''}{':' + spec if spec else ''}"
        for _, name, spec, conversion in Formatter().parse(text)
        if name is not None
    }
