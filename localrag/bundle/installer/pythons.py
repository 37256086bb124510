"""Finding another Python on this machine, and going on with it.

Python 3.6 can read this too: it is what a Python older than localrag's has to do.
"""

# ruff: noqa: PTH100, PTH113, PTH118, S603
# pathlib would bring nothing here, and there is no shell

import os
import subprocess
from collections.abc import Iterable


def find(versions: "Iterable[str]") -> "list[str] | None":
    """The command of the first of these versions, such as "3.12", that is here, or None.

    Only absolute folders of PATH count, not the one at hand.
    """
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    for version in versions:
        names = [["python" + version]]
        if os.name == "nt":
            names = [["py.exe", "-" + version], ["python" + version + ".exe"]]
        for name, *options in names:
            for folder in filter(os.path.isabs, folders):
                command = [os.path.join(folder, name), *options]
                if os.path.isfile(command[0]) and _version(command) == version:
                    return command
    return None


def hand_over(command: "list[str]", program: str, arguments: "list[str]") -> int:
    """Let another Python run a program with our terminal; its exit code."""
    return subprocess.call([*command, "-I", os.path.abspath(program), *arguments])


def _version(command: "list[str]") -> str:
    ask = "import sys; print('{}.{}'.format(*sys.version_info))"
    try:
        output = subprocess.check_output([*command, "-I", "-c", ask], stderr=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return output.decode("ascii", "replace").strip()
