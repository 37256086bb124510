"""Run the tests under strace and list every address that any process reached for.

    python scripts/trace_tests.py
    python scripts/trace_tests.py --log traces tests/cli tests/test_network.py

Linux only. Whatever calls the system is seen: Python, C libraries, child processes. The tests run
where the network is, so an attempt would be a real one. Counted are loopback, sockets of this
machine (AF_UNIX, AF_NETLINK), and attempts of processes that were started in a network namespace
of their own, with no way out: tests let something leak there on purpose. So are addresses kept
for examples, which belong to nobody. All others are printed, and a name service on loopback
counts as one of them. With --log, folders that have been
traced are not run again. Exit code 1 for an address outside, or a test that failed.
"""

from __future__ import annotations

import argparse
import ipaddress
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CALLS = "connect,sendto,sendmsg,sendmmsg,unshare,clone,clone3,fork,vfork"
NAME_SERVICE = 53
EXAMPLES = [
    ipaddress.ip_network(net)
    for net in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32")
]
"""Kept for examples (RFC 5737, RFC 3849): they belong to nobody, and tests open doors to them."""

_LINE = re.compile(r"^(\d+) +(.*)$")
_ADDRESS = re.compile(
    r"sa_family=AF_INET6?, sin6?_port=htons\((\d+)\).*?"
    r'(?:sin_addr=inet_addr\("([^"]+)"\)|inet_pton\(AF_INET6, "([^"]+)")'
)


@dataclass(slots=True)
class Seen:
    """What the processes of some tests reached for."""

    counts: Counter[str] = field(default_factory=Counter)
    outside: Counter[str] = field(default_factory=Counter)


def calls(text: str) -> Iterator[tuple[int, str]]:
    """Process and call, those that strace had to write in two parts put together."""
    begun: dict[int, str] = {}
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        process, rest = int(match[1]), match[2]
        if rest.endswith("<unfinished ...>"):
            begun[process] = rest.removesuffix("<unfinished ...>")
            if not rest.startswith(("clone", "fork", "vfork", "unshare")):
                yield process, rest  # the address is there already
        elif rest.startswith("<..."):
            whole = begun.pop(process, "") + rest.partition(">")[2]
            if whole.startswith(("clone", "fork", "vfork", "unshare")):
                yield process, whole
        else:
            yield process, rest


def examine(text: str) -> Seen:
    """Sort all calls in the output of `strace -f`."""
    seen, all_calls = Seen(), list(calls(text))
    first: dict[int, int] = {}
    parent: dict[int, int] = {}
    walled: dict[int, int] = {}
    for place, (process, call) in enumerate(all_calls):
        first.setdefault(process, place)
        result = call.rpartition("= ")[2].split(" ")[0]
        if call.startswith("unshare") and "CLONE_NEWNET" in call and result == "0":
            walled.setdefault(process, place)
        elif call.startswith(("clone", "fork", "vfork")) and result.isdigit():
            parent[int(result)] = process
            if "CLONE_NEWNET" in call:
                walled.setdefault(int(result), -1)

    def in_namespace(process: int, place: int) -> bool:
        while True:
            if walled.get(process, place) < place:
                return True
            if process not in parent:
                return False
            # A thread or a child has what its parent had when it began.
            process, place = parent[process], first.get(process, place)

    for place, (process, call) in enumerate(all_calls):
        if not call.startswith(("connect", "send")):
            continue
        family = re.search(r"sa_family=(AF_\w+)", call)
        if family is None:
            continue  # over a connection that was counted when it was made
        found = _ADDRESS.search(call)
        if found is None:
            if family[1] in ("AF_INET", "AF_INET6"):
                seen.outside[call[:120]] += 1
            else:
                seen.counts[family[1].removeprefix("AF_").lower()] += 1
            continue
        host, port = ipaddress.ip_address(found[2] or found[3]), int(found[1])
        plain = getattr(host, "ipv4_mapped", None) or host
        if plain.is_loopback and port != NAME_SERVICE:
            seen.counts["loopback"] += 1
        elif in_namespace(process, place):
            seen.counts["in a namespace"] += 1
        elif any(plain in net for net in EXAMPLES):
            seen.counts["kept for examples"] += 1
        else:
            seen.outside[f"{host} port {port}"] += 1
    return seen


def trace(target: str, folder: Path) -> tuple[Seen, str]:
    """Run tests under strace, unless that has been done; what was seen, and pytest's last line."""
    name = target.replace("/", "_")
    log, said = folder / f"{name}.strace", folder / f"{name}.txt"
    if not said.exists():
        command = ["strace", "-f", "--seccomp-bpf", "-qq", "-e", f"trace={CALLS}"]
        command += ["-e", "signal=none", "-o", str(log)]
        command += [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", target]
        environment = {"LOCALRAG_MODELS": str(ROOT / "models")} | os.environ
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        part = said.with_suffix(".part")
        part.write_text(f"{done.stdout}\n{done.stderr}\nexit code {done.returncode}\n")
        part.rename(said)
    text = said.read_text()
    ends = [
        line for line in text.splitlines() if re.search(r"\d+ (passed|failed|skipped|error)", line)
    ]
    code = text.rstrip().rpartition(" ")[2]
    last = (ends or ["no tests"])[-1].strip("= ")
    return examine(log.read_text(errors="replace")), last if code == "0" else f"FAILED {last}"


def targets() -> list[str]:
    """Each folder and each file directly in `tests`."""
    folders = sorted(path for path in (ROOT / "tests").iterdir() if any(path.glob("test_*.py")))
    files = sorted((ROOT / "tests").glob("test_*.py"))
    return [str(path.relative_to(ROOT)) for path in (*files, *folders)]


def main() -> None:
    """Parse the command line; exit with 1 if anything reached outside or failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("tests", nargs="*", help="folders and files; default: all")
    parser.add_argument("--log", type=Path, help="folder to keep traces in, and to go on from")
    arguments = parser.parse_args()
    if not sys.platform.startswith("linux") or shutil.which("strace") is None:
        sys.exit("only on Linux with strace installed")
    folder = arguments.log or Path(tempfile.mkdtemp(prefix="localrag-trace-"))
    folder.mkdir(parents=True, exist_ok=True)
    total, bad = Seen(), 0
    for target in arguments.tests or targets():
        seen, last = trace(target, folder)
        total.counts += seen.counts
        total.outside += seen.outside
        bad += last.startswith("FAILED")
        counts = ", ".join(f"{name} {count}" for name, count in sorted(seen.counts.items()))
        print(
            f"{target}: {last}; {counts or 'nothing'}; outside {seen.outside.total()}", flush=True
        )
        for address, count in seen.outside.most_common():
            print(f"  {count} x {address}", flush=True)
    counts = ", ".join(f"{name} {count}" for name, count in sorted(total.counts.items()))
    print(f"all: {counts}; outside {total.outside.total()}")
    sys.exit(1 if bad or total.outside else 0)


if __name__ == "__main__":
    main()
