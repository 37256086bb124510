"""Look up the locked packages in advisories that are given to it, in the OSV format.

    .venv/bin/python scripts/scan.py --advisories FILE

FILE is a JSON file of one record or a list, a folder of such files, or a .zip of them, as OSV
publishes them for PyPI. Nothing is fetched. Exit code: 0 where nothing was found or nothing was
given (it says which), 1 where an advisory applies or might, 2 where FILE cannot be used.
What packages carry within them (llama.cpp in llama-cpp-python) has advisories of its own, which
this does not see.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

LOCKS = Path(__file__).resolve().parent / "locks"
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.M)
_RANKS = {"introduced": 0, "last_affected": 1, "fixed": 2, "limit": 2}


class Unusable(Exception):  # noqa: N818 - it says what the file is
    """The advisories cannot be used, and why."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what was found; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--advisories", type=Path, metavar="FILE")
    parser.add_argument("--locks", type=Path, default=LOCKS, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.advisories is None:
        print("Known vulnerabilities: not scanned; no advisories were given (--advisories FILE).")
        return 0
    pins = locked(options.locks)
    try:
        count, newest, found = scan(options.advisories, pins)
    except (Unusable, OSError, zipfile.BadZipFile) as error:
        print(f"Known vulnerabilities: not scanned; {options.advisories}: {error}", file=sys.stderr)
        return 2
    for line in found:
        print("".join(each if each.isprintable() else "?" for each in line))
    against = f"{len(pins)} locked versions, {count} advisories, the newest of {newest or '?'}"
    print(f"Known vulnerabilities: {len(found) or 'none'} found ({against}).")
    return 1 if found else 0


def locked(folder: Path) -> set[tuple[str, str]]:
    """Name and version of everything in the lock files."""
    texts = (path.read_text("utf-8") for path in sorted(folder.glob("*.txt")))
    return {(canonicalize_name(n), v) for text in texts for n, v in _PIN.findall(text)}


def scan(path: Path, pins: set[tuple[str, str]]) -> tuple[int, str, list[str]]:
    """How many advisories about Python packages there are, the newest's day, and what applies."""
    count, newest, found = 0, "", []
    for record in records(path):
        try:
            about = [each for each in record.get("affected", ()) if _is_python(each)]
            if not about or record.get("withdrawn"):
                continue
            count += 1
            newest = max(newest, str(record.get("modified", ""))[:10])
            for name, version in sorted(pins):
                mine = [each for each in about if canonicalize_name(_name(each)) == name]
                answers = {affects(each, Version(version)) for each in mine}
                if answers & {True, None}:
                    found.append(_line(name, version, record, mine, sure=True in answers))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            where = record.get("id", "?") if isinstance(record, dict) else "?"
            raise Unusable(f"record {where} is not of the OSV format ({error!r})") from error
    if not count:
        raise Unusable("it holds no advisory about a Python package")
    return count, newest, found


def records(path: Path) -> Iterator[dict[str, Any]]:
    """Every record of a file, a folder or an archive."""
    if path.is_dir():
        for file in sorted(path.rglob("*.json")):
            yield from _decoded(file.read_bytes(), str(file))
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for name in sorted(archive.namelist()):
                if name.endswith(".json"):
                    yield from _decoded(archive.read(name), name)
    else:
        yield from _decoded(path.read_bytes(), str(path))


def affects(affected: dict[str, Any], version: Version) -> bool | None:
    """Whether an entry of `affected` means a version; None where that cannot be told."""
    listed = affected.get("versions") or ()
    ranges = [each for each in affected.get("ranges") or () if each.get("type") != "GIT"]
    if not listed and not ranges:
        return None
    if any(_same(each, version) for each in listed):
        return True
    try:
        return any(_within(each["events"], version) for each in ranges)
    except InvalidVersion:
        return None


def _within(events: list[dict[str, str]], version: Version) -> bool:
    """OSV's algorithm: the last event at or before the version decides."""
    flat = [(each, text) for event in events for each, text in event.items()]
    inside = False
    for kind, text in sorted(flat, key=lambda one: (_bound(one[1]), _RANKS[one[0]])):
        here = _bound(text)
        if kind == "introduced":
            inside = inside or version >= here
        else:
            inside = inside and (version <= here if kind == "last_affected" else version < here)
    return inside


def _same(text: str, version: Version) -> bool:
    try:
        return Version(text) == version
    except InvalidVersion:  # older than PEP 440: none of ours
        return False


def _bound(text: str) -> Version:
    return Version("0.dev0") if text == "0" else Version(text)


def _decoded(data: bytes, where: str) -> list[dict[str, Any]]:
    try:
        found = json.loads(data)
    except ValueError as error:
        raise Unusable(f"{where} is no JSON ({error})") from error
    return found if isinstance(found, list) else [found]


def _is_python(affected: dict[str, Any]) -> bool:
    return str(affected["package"]["ecosystem"]).partition(":")[0] == "PyPI"


def _name(affected: dict[str, Any]) -> str:
    return str(affected["package"]["name"])


def _line(
    name: str, version: str, record: dict[str, Any], about: list[dict[str, Any]], *, sure: bool
) -> str:
    ids = ", ".join([str(record["id"]), *map(str, record.get("aliases", ()))])
    events = [e for one in about for each in one.get("ranges") or () for e in each["events"]]
    fixed = ", ".join(sorted({str(event["fixed"]) for event in events if "fixed" in event}))
    doubt = "" if sure else " (whether this version is meant cannot be told)"
    title = str(record.get("summary") or record.get("details", ""))[:200]
    return f"{name} {version}: {ids}{doubt}: {title}; fixed in: {fixed or 'not known'}"


if __name__ == "__main__":
    sys.exit(main())
