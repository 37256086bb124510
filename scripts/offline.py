"""Run a command with the network taken away: a namespace with loopback only.

    python3 scripts/offline.py COMMAND [ARGUMENTS]

Linux only (unshare(2) with CLONE_NEWNET, and CLONE_NEWUSER for who is not root).
Elsewhere, or where the system forbids it, says so and runs the command as it is.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from localrag.cli.namespace import enter


def main() -> None:
    """Take the network away, then become the command."""
    try:
        enter()
        print("offline: loopback only", file=sys.stderr, flush=True)
    except OSError as error:
        print(
            f"offline: not possible here ({error}); the network stays", file=sys.stderr, flush=True
        )
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
