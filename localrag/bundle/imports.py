"""Which libraries the machine code in wheels loads, and whether they are there on the target.

A wheel for another system cannot be run here, but what it loads stands in its files.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, cast

from localrag.bundle.installer.manifest import Target
from localrag.bundle.wheel import Wheel
from localrag.errors import BundleError
from localrag.system import files

_SUFFIX = re.compile(r"(?i)\.(so(\.[0-9]+)*|dylib|dll|pyd)$")
"""Of machine code, such as "libgomp.so.1" or "_cffi.pyd"."""

_SYSTEM = {
    # What manylinux promises, and the driver of an NVIDIA card.
    "linux": r"ld-linux[a-z0-9_-]*|lib(c|m|dl|rt|pthread|util|resolv|nsl|anl|mvec|gcc_s|stdc\+\+"
    r"|z|cuda|nvidia-ml)",
    "macos": r"/usr/lib/.*|/System/Library/.*",
    # Windows itself and Python from python.org, which brings vcruntime140 but not msvcp140.
    "windows": r"(api|ext)-ms-.*|python3[0-9]*|vcruntime140(_1)?|ucrtbase|msvcrt|kernel(32|base)"
    r"|ntdll|user32|gdi32|advapi32|shell32|shlwapi|ole32|oleaut32|ws2_32|wsock32|crypt32|bcrypt"
    r"|bcryptprimitives|ncrypt|secur32|iphlpapi|psapi|version|winmm|dbghelp|comdlg32|comctl32"
    r"|imm32|setupapi|userenv|powrprof|rpcrt4|mswsock|netapi32|dnsapi|wldap32|pdh|cfgmgr32"
    r"|d3d(9|11|12)|dxgi|dxcore|propsys|mf(plat|readwrite)?|normaliz|synchronization|msimg32"
    r"|aclui|activeds|dsound|lz32|mpr|ntdsapi|odbc32|oleacc|rasapi32|uxtheme|wininet|wtsapi32|credui"
    r"|ktmw32|loadperf|query|sfc|urlmon|imagehlp|winspool.drv|opengl32|nvcuda|nvml|combase|wintrust|winhttp|shcore|windowscodecs",
}
"""Libraries of a bare system, by the stem of their name, or by path on macOS."""


def missing(wheels: Sequence[Wheel], target: Target) -> dict[str, tuple[str, ...]]:
    """Libraries, by wheel, that its files load and that neither a wheel nor the system has.

    Raises `BundleError` where a file is no machine code for the target's system.
    """
    there: set[str] = set()
    loaded: dict[str, set[str]] = {}
    for wheel in wheels:
        there |= _names(wheel)
        with files.scratch_folder() as scratch:
            for path in _machine_code(wheel, scratch):
                loaded.setdefault(wheel.name, set()).update(_imports(path, target, wheel))
    bare = re.compile(_SYSTEM[target.system], re.I)
    result = {}
    for name, libraries in loaded.items():
        absent = {
            library
            for library in libraries
            if _base(library) not in there and not bare.fullmatch(_stem(library, target))
        }
        if absent:
            result[name] = tuple(sorted(absent))
    return result


def _names(wheel: Wheel) -> set[str]:
    with zipfile.ZipFile(wheel.path) as archive:
        return {_base(name) for name in archive.namelist() if _SUFFIX.search(name)}


def _machine_code(wheel: Wheel, folder: Path) -> Iterator[Path]:
    """Its libraries, one at a time as a file in `folder`."""
    with zipfile.ZipFile(wheel.path) as archive:
        for member in archive.infolist():
            if _SUFFIX.search(member.filename):
                path = folder / "library"
                with archive.open(member) as source, files.overwrite_file(path) as copy:
                    while block := source.read(1 << 20):
                        copy.write(block)
                yield path


def _imports(path: Path, target: Target, wheel: Wheel) -> Iterable[str]:
    reader = {"linux": _of_elf, "macos": _of_mach_o, "windows": _of_pe}[target.system]
    try:
        return reader(path)
    except Exception as error:  # each library has errors of its own, and none is of ours
        raise BundleError(
            "{name} has a library that {target} cannot load: {reason}.",
            hint="Download that wheel again, or name another one with --wheel.",
            name=wheel.name,
            target=target.name,
            reason=error,
        ) from error


def _of_elf(path: Path) -> list[str]:
    from elftools.elf.dynamic import DynamicSection
    from elftools.elf.elffile import ELFFile

    with path.open("rb") as file:
        return [
            str(cast(Any, tag).needed)  # its name depends on the kind of entry
            for section in ELFFile(file).iter_sections()
            if isinstance(section, DynamicSection)
            for tag in section.iter_tags("DT_NEEDED")
        ]


def _of_mach_o(path: Path) -> list[str]:
    from macholib.MachO import MachO

    headers = MachO(str(path), allow_unknown_load_commands=True).headers
    return [name for header in headers for _, _, name in header.walkRelocatables()]


def _of_pe(path: Path) -> list[str]:
    import pefile

    binary = pefile.PE(str(path), fast_load=True)
    try:
        entry = pefile.DIRECTORY_ENTRY["IMAGE_DIRECTORY_ENTRY_IMPORT"]
        binary.parse_data_directories([entry])
        return [
            imported.dll.decode("ascii")
            for imported in getattr(binary, "DIRECTORY_ENTRY_IMPORT", ())
        ]
    finally:
        binary.close()


def _base(name: str) -> str:
    return PurePosixPath(name).name.lower()


def _stem(library: str, target: Target) -> str:
    """What `_SYSTEM` knows a library by: "libc" of "libc.so.6", "kernel32" of "KERNEL32.dll"."""
    return library if target.system == "macos" else _SUFFIX.sub("", _base(library))
