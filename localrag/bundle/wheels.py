"""Bringing the wheel of every dependency for a target, through the user's own pip.

pip's `--platform` chooses wheels for another machine but still evaluates markers for
this one, and it wants every package as a wheel. So pip only fetches here, without
dependencies; what is needed is read from the wheels themselves, with the target's markers.
Versions are those of the running environment, which is what was tested.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from localrag.bundle import targets
from localrag.bundle.installer.environments import failure_reason
from localrag.bundle.installer.manifest import Target
from localrag.bundle.localrag_wheel import DISTRIBUTION
from localrag.bundle.pip_runner import run_pip
from localrag.bundle.wheel import Wheel, read_wheel
from localrag.errors import BundleError, UsageError
from localrag.system import files

if TYPE_CHECKING:
    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet


class Notify(Protocol):
    """Hears what is being done: a template and its values, for whoever says it to a person."""

    def __call__(self, template: str, /, **values: object) -> None:
        """Hear it."""


Pip = Callable[..., tuple[int, list[str]]]
"""`run_pip`, or a stand-in for it."""

ROOTS = (DISTRIBUTION, "pip")
"""pip itself travels too: Python on Debian cannot make an environment without it."""

LEFT_OUT = ("rapidocr", "sentence-transformers")
"""What a lean bundle does without: text recognition, and PyTorch for models not in ONNX."""

TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
"""PyTorch publishes its CPU builds for Linux beside, not in, the public package index."""

_NO_WHEEL = re.compile(r"No matching distribution found for ([A-Za-z0-9._-]+)")


@dataclass
class JoinedRequirement:
    """What is asked of one distribution, and by which others."""

    specifier: SpecifierSet
    by: set[str] = field(default_factory=set)


def versions_here() -> dict[str, str]:
    """The version of every distribution in the running environment, by normalised name."""
    from packaging.utils import canonicalize_name

    versions: dict[str, str] = {}
    for distribution in distributions():
        if name := distribution.metadata["Name"]:
            versions.setdefault(canonicalize_name(name), distribution.version)
    return versions


def resolve(
    roots: Iterable[str],
    requirements: Callable[[str], Iterable[Requirement]],
    environment: Mapping[str, str],
    extras: Iterable[str] = (),
) -> dict[str, JoinedRequirement]:
    """What the roots need, what that needs in turn, and so on, by normalised name.

    `environment` has the values of markers where they differ from those of this machine; `extras`
    are those of localrag.
    """
    from packaging.specifiers import SpecifierSet
    from packaging.utils import canonicalize_name

    needs = {root: JoinedRequirement(SpecifierSet(), by={DISTRIBUTION}) for root in roots}
    todo = [(root, "") for root in needs] + [(DISTRIBUTION, extra) for extra in extras]
    seen: set[tuple[str, str]] = set()
    while todo:
        name, extra = todo.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        for requirement in requirements(name):
            if requirement.marker and not requirement.marker.evaluate(
                {**environment, "extra": extra}
            ):
                continue
            other = canonicalize_name(requirement.name)
            need = needs.setdefault(other, JoinedRequirement(SpecifierSet()))
            need.specifier &= requirement.specifier
            need.by.add(name)
            todo += [(other, option) for option in ("", *requirement.extras)]
    return needs


class WheelCollector:
    """Gathers wheels for one target into a folder.

    `versions` are pinned wherever the requirements admit them; `extras` are those of localrag;
    `roots` is what is needed although nothing requires it, `without` what is left out although
    localrag requires it, and with it what only that needs.
    """

    def __init__(
        self,
        target: Target,
        folder: Path,
        versions: Mapping[str, str],
        notify: Notify,
        pip: Pip = run_pip,
        extras: Iterable[str] = (),
        roots: Iterable[str] = ROOTS,
        without: Iterable[str] = (),
    ) -> None:
        self._target = target
        self._extras = tuple(extras)
        self._roots = tuple(roots)
        self._without = frozenset(without)
        self._folder = folder.absolute()
        self._versions = {name: text for name, text in versions.items() if name != "pip"}
        self._announce = notify
        self._pip = pip
        self._native = targets.is_here(target)
        self.wheels: dict[str, Wheel] = {}

    def add(self, path: Path) -> Wheel:
        """Take a ready wheel. Raises `BundleError` when it does not run on the target."""
        wheel = read_wheel(path)
        if not self._fits(wheel):
            raise BundleError(
                "{path} does not run on {target} with Python {python}.",
                hint="Build or download that wheel for the machine that the bundle is for.",
                path=path,
                target=self._target.name,
                python=self._target.python,
            )
        place = self._folder / path.name
        if path != place:
            place.unlink(missing_ok=True)
            files.copy_file(path, place)
        self.wheels[wheel.name] = replace(wheel, path=place)
        return self.wheels[wheel.name]

    def complete(self) -> list[Wheel]:
        """Fetch all that is still needed, check that it fits together, and return all by name.

        Raises `BundleError` naming what cannot be had or contradicts itself.
        """
        while missing := {n: need for n, need in self.needs().items() if n not in self.wheels}:
            self._fetch(missing)
            self._announce("{count} packages downloaded", count=len(self.wheels))
        needs = self.needs()
        for name, need in needs.items():
            if not need.specifier.contains(self.wheels[name].version, prereleases=True):
                raise BundleError(
                    "{name} {version} is there, but {by} asks for {wanted}.",
                    hint="Make the environment consistent (`pip check` names what is not), then "
                    "run the same command again.",
                    name=name,
                    version=self.wheels[name].version,
                    by=", ".join(sorted(need.by)),
                    wanted=f"{name}{need.specifier}",
                )
        if unused := sorted(self.wheels.keys() - needs.keys()):
            raise UsageError(
                "Nothing in the bundle needs {names}.",
                hint="Omit that --wheel, or add the --extra that needs it.",
                names=", ".join(unused),
            )
        return [self.wheels[name] for name in sorted(self.wheels)]

    def needs(self) -> dict[str, JoinedRequirement]:
        """What the roots and the wheels gathered so far need, with the target's markers."""
        from packaging.utils import canonicalize_name

        def requirements(name: str) -> list[Requirement]:
            wheel_requirements = self.wheels[name].requirements if name in self.wheels else []
            return [
                requirement
                for requirement in wheel_requirements
                if canonicalize_name(requirement.name) not in self._without
            ]

        environment = targets.marker_environment(self._target)
        return resolve(self._roots, requirements, environment, self._extras)

    def _fetch(self, missing: Mapping[str, JoinedRequirement]) -> None:
        from packaging.version import Version

        specifications = {name: self._specification(name, need) for name, need in missing.items()}
        if torch := specifications.pop("torch", None):
            self._fetch_torch(torch)
        if specifications:
            if self._native:
                command = ("wheel", "--no-deps", "--wheel-dir", str(self._folder))
                code, lines = self._pip(*command, *specifications.values())
                if code:
                    raise self._pip_error(lines)
            else:
                self._fetch_foreign(specifications, missing)
        self._take(missing)
        for name, specification in specifications.items():
            pinned = specification.partition("==")[2]
            if pinned and Version(self.wheels[name].version) != Version(pinned):
                self._announce(
                    "{name}: {found} instead of {tested}, which is not available for {target}",
                    name=name,
                    found=self.wheels[name].version,
                    tested=pinned,
                    target=self._target.name,
                )

    def _specification(self, name: str, need: JoinedRequirement) -> str:
        version = self._versions.get(name)
        if version is None or not need.specifier.contains(version, prereleases=True):
            return f"{name}{need.specifier}"
        if name == "torch":
            public = version.partition("+")[0]
            if (self._target.system, self._target.accelerator) == ("linux", "cpu"):
                return f"torch=={public}+cpu"
            return f"torch==={public}"  # `==` would take a CPU build as well
        return f"{name}=={version}"

    def _fetch_torch(self, specification: str) -> None:
        """As pip is configured; failing that, from where PyTorch publishes its CPU builds."""
        command = self._download()
        code, lines = self._pip(*command, specification)
        if not code:
            return
        if "+cpu" not in specification:
            raise self._pip_error(lines)
        code, lines = self._pip(*command, "--index-url", TORCH_CPU_INDEX, specification)
        if code:
            raise BundleError(
                "{package} is neither where pip is configured to look nor at {index}: {reason}.",
                hint="Allow that address, or bring the wheel from there on a disk and name "
                "it with --wheel.",
                package=specification,
                index=TORCH_CPU_INDEX,
                reason=failure_reason(lines),
            )

    def _fetch_foreign(
        self, specifications: dict[str, str], missing: Mapping[str, JoinedRequirement]
    ) -> None:
        """Wheels for another machine; what has none is built here if it is Python only."""
        from packaging.utils import canonicalize_name

        left = dict(specifications)
        while left:
            code, lines = self._pip(*self._download(), *left.values())
            if not code:
                return
            match = _NO_WHEEL.search("\n".join(lines))
            name = canonicalize_name(match[1]) if match else ""
            if name not in left:
                raise self._pip_error(lines)
            any_version = f"{name}{missing[name].specifier}"
            if left[name] != any_version:  # tested in a version that was not built for them
                left[name] = any_version
            else:
                del left[name]
                self._build_pure(specifications[name])

    def _build_pure(self, specification: str) -> None:
        with files.scratch_folder() as scratch:
            code, lines = self._pip(
                "wheel", "--no-deps", "--wheel-dir", str(scratch), specification
            )
            built = list(scratch.glob("*.whl"))
            if not code and built and built[0].name.endswith("-none-any.whl"):
                files.copy_file(built[0], self._folder / built[0].name)
                return
        raise BundleError(
            "{name} has no wheel for {target} with Python {python}: {reason}.",
            hint="Build one on such a machine with `pip wheel --no-deps {name}` and name it with "
            "--wheel, or choose another --python.",
            name=specification,
            target=self._target.name,
            python=self._target.python,
            reason=failure_reason(lines) if code else BundleError("it has to be compiled there"),
        )

    def _download(self) -> list[str]:
        command = ["download", "--no-deps", "--dest", str(self._folder)]
        if not self._native:
            version = self._target.python
            command += ["--only-binary=:all:", "--implementation=cp", f"--python-version={version}"]
            command += [f"--platform={tag}" for tag in targets.platform_tags(self._target)]
        return command

    def _take(self, missing: Mapping[str, JoinedRequirement]) -> None:
        known = {wheel.path.name for wheel in self.wheels.values()}
        for path in sorted(self._folder.glob("*.whl")):
            if path.name not in known:
                wheel = read_wheel(path)
                self.wheels[wheel.name] = wheel
        if absent := sorted(missing.keys() - self.wheels.keys()):
            raise BundleError(
                "pip found no wheel for {names}.",
                hint="Run `pip download` for it manually to see why.",
                names=", ".join(absent),
            )

    def _fits(self, wheel: Wheel) -> bool:
        from packaging.tags import compatible_tags, cpython_tags, sys_tags

        if self._native:
            return not wheel.tags.isdisjoint(sys_tags())
        platforms = targets.platform_tags(self._target, targets.NEWEST_GLIBC_MINOR)
        if self._target.system == "linux":
            # A build of one's own carries this tag, which promises nothing about glibc.
            platforms.append(f"linux_{platforms[0].split('_', 3)[3]}")
        version = (3, int(self._target.python.partition(".")[2]))
        known = {*cpython_tags(version, platforms=platforms)}
        known |= {*compatible_tags(version, "cp{}{}".format(*version), platforms)}
        return not known.isdisjoint(wheel.tags)

    def _pip_error(self, lines: list[str]) -> BundleError:
        return BundleError(
            "pip could not fetch the packages: {reason}.",
            hint="Check the connection and pip's settings (`pip config list`), then run the same "
            "command again: what was downloaded is in pip's cache.",
            reason=failure_reason(lines),
        )
