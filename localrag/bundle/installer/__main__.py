"""The beginning of `install.py`: any Python 3 can read it, and an old one looks for another."""

import sys


def main() -> int:
    """Install, or let a newer Python do it; the exit code."""
    path, *arguments = sys.argv
    if sys.version_info >= (3, 11):  # noqa: UP036 - here it may be older
        from pathlib import Path

        from localrag.bundle.installer import program

        return program.main(arguments, Path(path).resolve())
    from localrag.bundle.installer import pythons

    command = pythons.find(f"3.{minor}" for minor in range(30, 10, -1))
    if command is not None:
        return pythons.hand_over(command, path, arguments)
    version = "{}.{}".format(*sys.version_info)
    sys.stderr.write(
        "install.py needs Python 3.11 or newer 需要 3.11 或更新版本: " + version + "\n"
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
