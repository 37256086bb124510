"""Set up, pull the small models that tests use, and run all tests.

    python3 scripts/test.py [pytest arguments]

On Linux the tests run in a network namespace of their own that has loopback and
nothing else, where the system allows one: what needs the network fails there.
"""

from __future__ import annotations

import os
import subprocess
import sys

from environment import ROOT, models_folder, ready

PRESETS = ("starter", "test")


def main() -> None:
    """Exit with pytest's code."""
    python = str(ready("dev"))
    environment = os.environ | {"LOCALRAG_MODELS": str(models_folder())}
    pull = [python, "-m", "localrag", "models", "pull", *PRESETS]
    done = subprocess.run(pull, env=environment, cwd=ROOT, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    tests = [python, str(ROOT / "scripts" / "offline.py"), python, "-m", "pytest", *sys.argv[1:]]
    sys.exit(subprocess.run(tests, env=environment, cwd=ROOT, check=False).returncode)


if __name__ == "__main__":
    main()
