"""The machine that this runs on, as manifests name it, and whether a bundle is for it."""

from __future__ import annotations

import platform
import re
import sys
import sysconfig
from collections.abc import Sequence

from localrag.bundle.installer.manifest import File, Manifest
from localrag.errors import BundleError

_SYSTEMS = {"linux": "linux", "darwin": "macos", "win32": "windows"}
_MACHINES = {"amd64": "x86_64", "x64": "x86_64", "aarch64": "arm64"}
_GLIBC = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}


def this_machine() -> tuple[str, str, str]:
    """(system, machine, Python) as manifests name them."""
    machine = platform.machine().lower()
    if sys.platform == "win32":  # what Python was built for, not what Windows runs on
        machine = sysconfig.get_platform().rpartition("-")[2]
    if sys.maxsize < 1 << 32:
        machine = "32-bit"
    version = "{}.{}".format(*sys.version_info)
    if sys.implementation.name != "cpython":
        version = f"{sys.implementation.name} {version}"
    return _SYSTEMS.get(sys.platform, sys.platform), _MACHINES.get(machine, machine), version


def check_machine(manifest: Manifest) -> None:
    """Raise `BundleError` where it is for another system, processor, Python or a newer system."""
    system, machine, python = this_machine()
    if (system, machine) != (manifest.target.system, manifest.target.machine):
        raise BundleError(
            "The bundle is for {wanted}; this machine, or its Python, is {found}.",
            hint="Create one for this machine with `localrag bundle create`.",
            wanted=manifest.target.name,
            found=f"{system}-{machine}",
        )
    if python != manifest.target.python:
        raise BundleError(
            "The bundle is for Python {wanted}; this is Python {found} ({path}).",
            hint="Install Python {wanted}: python.org has installers for Windows and macOS "
            "that can travel on the same USB stick; on Linux the package is "
            "python{wanted}. Then run install.py with it. Or create a bundle for this "
            "Python: `localrag bundle create --python`.",
            wanted=manifest.target.python,
            found=python,
            path=sys.executable,
        )
    needed, name = _newest_system(system, manifest.wheels)
    has = _system_version(system)
    if has is not None and has < needed:
        raise BundleError(
            "{name} needs {system} {needed} or newer; this machine has {found}.",
            hint="Update the system, or use a newer machine.",
            name=name,
            system={"linux": "glibc", "macos": "macOS"}.get(system, system),
            needed="{}.{}".format(*needed),
            found="{}.{}".format(*has) if has > (0, 0) else platform.libc_ver()[0] or "musl",
        )


def _newest_system(system: str, wheels: Sequence[File]) -> tuple[tuple[int, int], str]:
    """The least glibc or macOS that all wheels run on, and the wheel that needs it."""
    needed = ((0, 0), "")
    if system not in ("linux", "macos"):
        return needed
    for path in (file.path for file in wheels):
        versions = []
        for tag in path.removesuffix(".whl").rpartition("-")[2].split("."):
            if match := re.match(r"(?:manylinux|macosx)_(\d+)_(\d+)_", tag):
                versions.append((int(match[1]), int(match[2])))
            elif (name := tag.partition("_")[0]) in _GLIBC:
                versions.append(_GLIBC[name])
        if versions:
            needed = max(needed, (min(versions), path))
    return needed


def _system_version(system: str) -> tuple[int, int] | None:
    if system == "macos":
        version = platform.mac_ver()[0]
    elif system == "linux":
        library, version = platform.libc_ver()
        if library != "glibc":
            return (0, 0)
    else:
        return None
    numbers = re.findall(r"\d+", version)
    return (int(numbers[0]), int(numbers[1])) if len(numbers) > 1 else None
