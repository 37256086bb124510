"""The machine that a bundle is for, in the words of pip's tags and of requirement markers.

Knows nothing about files.
"""

from __future__ import annotations

import re

from localrag.bundle.installer.machine import this_machine
from localrag.bundle.installer.manifest import Target
from localrag.errors import UsageError

OLDEST_MINOR = 11
"""Of Python 3: the oldest that localrag runs with."""
_GLIBC_MINOR = 28
"""glibc 2.28 (2018) is what the builds of PyTorch ask for, so nothing older is of use."""
NEWEST_GLIBC_MINOR = 60
"""For a wheel that the user names, which may be for a newer system than others."""
_MACOS = (14, 0)


def here() -> Target:
    """The machine and the Python that run this. Raises `UsageError` where there are no bundles."""
    system, machine, python = this_machine()
    if system not in ("linux", "macos", "windows") or machine not in ("x86_64", "arm64"):
        raise UsageError(
            "There are no bundles for {system} on {machine}.",
            hint="Name the machine it is for, for example --target linux-x86_64.",
            system=system,
            machine=machine,
        )
    return Target(system, machine, python, _usual_accelerator(system, machine))


def chosen(name: str | None, python: str | None, accelerator: str | None) -> Target:
    """The target that `--target`, `--python` and `--accelerator` name; what is None is as here.

    Raises `UsageError`.
    """
    system, _, machine = (name or here().name).partition("-")
    version = python or this_machine()[2]
    match = re.fullmatch(r"3\.([0-9]{1,2})", version)
    if not match or int(match[1]) < OLDEST_MINOR:
        raise UsageError(
            "localrag does not run on Python {version}.",
            hint="Give two numbers, 3.11 or newer: --python 3.12.",
            version=version,
        )
    usual = _usual_accelerator(system, machine)
    kind = accelerator or usual
    if kind != "cpu" and kind != usual and (kind == "metal" or system == "macos"):
        raise UsageError(
            "{target} has no {accelerator}.",
            hint="Omit --accelerator, or choose cpu.",
            target=f"{system}-{machine}",
            accelerator=kind,
        )
    return Target(system, machine, version, kind)


def is_here(target: Target) -> bool:
    """Whether wheels that are built on this machine run on the target."""
    return this_machine() == (target.system, target.machine, target.python)


def platform_tags(target: Target, glibc_minor: int = _GLIBC_MINOR) -> list[str]:
    """The platforms of wheels that run there, the best first, as `pip --platform` takes them.

    On Linux those for glibc 2.`glibc_minor` and older.
    """
    from packaging.tags import mac_platforms

    arch = {"x86_64": "x86_64", "arm64": "aarch64"}[target.machine]
    match target.system:
        case "linux":
            newest = [f"manylinux_2_{minor}_{arch}" for minor in range(glibc_minor, 4, -1)]
            older = ["manylinux2014", "manylinux2010", "manylinux1"]
            return [*newest, *(f"{tag}_{arch}" for tag in older)]
        case "macos":
            return list(mac_platforms(_MACOS, target.machine))
        case _:
            return [{"x86_64": "win_amd64", "arm64": "win_arm64"}[target.machine]]


def marker_environment(target: Target) -> dict[str, str]:
    """The values that markers of requirements are evaluated with (PEP 508) on the target."""
    os_name, sys_platform, platform_system = {
        "linux": ("posix", "linux", "Linux"),
        "macos": ("posix", "darwin", "Darwin"),
        "windows": ("nt", "win32", "Windows"),
    }[target.system]
    machine = {
        ("linux", "arm64"): "aarch64",
        ("windows", "x86_64"): "AMD64",
        ("windows", "arm64"): "ARM64",
    }.get((target.system, target.machine), target.machine)
    return {
        "implementation_name": "cpython",
        "implementation_version": f"{target.python}.0",
        "os_name": os_name,
        "platform_machine": machine,
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": platform_system,
        "platform_version": "",
        "python_full_version": f"{target.python}.0",
        "python_version": target.python,
        "sys_platform": sys_platform,
    }


def _usual_accelerator(system: str, machine: str) -> str:
    return "metal" if (system, machine) == ("macos", "arm64") else "cpu"
