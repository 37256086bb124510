"""Old binary files of Word and PowerPoint, made into new ones by an installed LibreOffice.

LibreOffice runs in a process of its own that is confined as the one that reads documents is: it
opens no socket, starts no program, and besides what is installed reads and writes nothing but one
private folder, which is deleted afterwards; macros are not run. Where the kernel cannot confine it
so, it is not started, and the file is named with what to do. What it makes is read as any file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from localrag.documents.formats.recognise import binary_kind
from localrag.documents.formats.table import damaged, format_of
from localrag.egress import network
from localrag.system import files, processes
from localrag.system.confinement import confine, limit_files, limit_memory, limit_time

SECONDS = 120
"""For one file; a hundred pages take five, and the first start takes two."""
MEMORY = 2 * 2**30
LARGEST = 512 * 2**20
"""Bytes of what is made of a file."""

PROGRAM = "from localrag.documents.legacy import main; main()"
_CONFINED, _FAILED = 0, 4
_LIBRARIES = ("libmergedlo.so", "libsofficeapp.so")
_SHARED = ("/usr/share", "/etc/fonts", "/var/cache/fontconfig")


def modern(path: Path, data: bytes) -> bytes | None:
    """What LibreOffice makes of an old file (docx, pptx); None where it is no such file.

    None as well where there is no LibreOffice, or no way to confine it. Raises CorruptFileError
    where it cannot read the file.
    """
    known = format_of(path)
    kind = binary_kind(data, known.name if known else "")
    program = _program()
    if kind not in ("docx", "pptx") or program is None:
        return None
    # What it writes goes to a file of which it has a descriptor and no path; the process has given
    # up writing more than LARGEST before it sees the document.
    with (
        files.scratch_folder() as folder,
        files.scratch_folder() as place,
        files.create_file(place / "made") as output,
    ):
        command = processes.python(PROGRAM, str(program), str(folder), kind)
        own = {"HOME": str(folder), "TMPDIR": str(folder), "SAL_USE_VCLPLUGIN": "svp"}
        try:
            done = processes.run(
                command,
                (*processes.PLAIN, network.WATCHED),
                variables=own,
                given=data,
                stdout=output,
                seconds=SECONDS,
            )
        except processes.TimedOutError:
            reason = f"LibreOffice took more than {SECONDS} s"
        else:
            size = output.seek(0, os.SEEK_END)
            if done.returncode == 0 and 0 < size <= LARGEST:
                return (place / "made").read_bytes()
            if done.returncode == _FAILED:
                return None  # it could not be confined, or is one that cannot be used so
            reason = f"LibreOffice ended with code {done.returncode} and wrote {size} bytes"
    raise damaged(str(path), reason)


@cache
def _program() -> Path | None:
    """The folder of LibreOffice's programs."""
    if sys.platform != "linux":
        return None
    program = processes.find("soffice") or processes.find("libreoffice")
    folder = Path(program).resolve().parent if program else None
    usable = folder is not None and any((folder / name).is_file() for name in _LIBRARIES)
    return folder if usable else None


# In the other process


def main() -> None:
    """Convert what comes in by the folder and to the kind that the command line names."""
    network.close_doors()
    program, folder, kind = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    restrictions = confine(*_installed(program), work=folder)
    if restrictions != {"files", "system calls"}:
        sys.exit(_FAILED)
    processes.end_with_parent()
    data = sys.stdin.buffer.read()
    limit_memory(MEMORY + 4 * len(data))
    limit_time(SECONDS)
    limit_files(LARGEST)
    old, new = folder / f"in.{kind[:-1]}", folder / f"out.{kind}"
    files.replace_content(old, data)
    code = _convert(program, folder, old, new, kind)
    if code == _CONFINED:
        sys.stdout.buffer.write(new.read_bytes())
        sys.stdout.buffer.flush()
    os._exit(code)  # its threads go on, and what it would do at the end matters to nobody


def _installed(program: Path) -> Iterator[Path]:
    """Where LibreOffice and fonts are, and what is linked into it from other places."""
    yield from map(Path, _SHARED)
    root = program.parent
    yield root
    for pattern in ("*/*", "*/*/*"):
        yield from (link.resolve() for link in root.glob(pattern) if link.is_symlink())


def _convert(program: Path, folder: Path, old: Path, new: Path, kind: str) -> int:
    """Through LibreOfficeKit, LibreOffice's interface for programs (LibreOfficeKit.h).

    Its documents are loaded without running macros unless that is asked for.
    """
    import ctypes

    pointer, text = ctypes.c_void_p, ctypes.c_char_p

    def method(owner: int, number: int, result: object, *takes: object) -> object:
        """A function of an object, which begins with a pointer to the table of them."""
        table = ctypes.cast(owner, ctypes.POINTER(pointer))[0]
        address = ctypes.cast(table, ctypes.POINTER(pointer))[number]
        return ctypes.CFUNCTYPE(result, pointer, *takes)(address)  # type: ignore[arg-type]

    name = next(name for name in _LIBRARIES if (program / name).is_file())
    hook = getattr(ctypes.CDLL(str(program / name)), "libreofficekit_hook_2", None)
    if hook is None:
        return _FAILED
    hook.restype, hook.argtypes = pointer, (text, text)
    profile = (folder / "profile").as_uri().encode()
    office = hook(str(program).encode(), profile)
    if not office:
        return _FAILED
    load = method(office, 2, pointer, text)
    document = load(office, old.as_uri().encode())  # type: ignore[operator]
    if not document:
        return 1
    save = method(document, 2, ctypes.c_int, text, text, text)
    return _CONFINED if save(document, new.as_uri().encode(), kind.encode(), None) else 1  # type: ignore[operator]
