"""`install.py`: the installer and what it needs of localrag, as one program that Python runs.

It is a zip archive as `zipapp` makes them: Python runs the `__main__.py` in it, whatever its name,
and finds its modules before any that are installed. Nothing in it is compressed, so that it can be
read in any editor, and the same sources give the same bytes.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import localrag
from localrag.system.files import create_file

PROGRAM = "install.py"
_PACKAGE = Path(localrag.__file__).parent
_INSTALLER = "bundle/installer"
_SHARED = (
    "__init__.py",
    "bundle/__init__.py",
    "errors.py",
    "messages.py",
    "messages_zh.toml",
    "printable.py",
    "system/__init__.py",
    "system/processes.py",
)
_NOTE = b"# A zip archive of Python files. To unpack it: python3 -m zipfile -e install.py FOLDER\n"


def contents() -> dict[str, Path]:
    """The files of the program, by their names in it."""
    own = (path.relative_to(_PACKAGE).as_posix() for path in (_PACKAGE / _INSTALLER).glob("*.py"))
    named = {f"localrag/{name}": _PACKAGE / name for name in sorted({*_SHARED, *own})}
    return {"__main__.py": _PACKAGE / _INSTALLER / "__main__.py", **named}


def pack(path: Path) -> Path:
    """Write the program to a new file; returns its path."""
    with create_file(path) as stream:
        stream.write(_NOTE)
        with zipfile.ZipFile(stream, "w") as archive:
            for name, source in contents().items():
                archive.writestr(zipfile.ZipInfo(name), source.read_bytes())
    return path
