"""Draw the rooms of localrag and their imports into docs/architecture.md.

    .venv/bin/python scripts/draw_architecture.py

What is drawn, `tests/test_architecture.py` says, and it checks that the page has it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from test_architecture import drawing  # noqa: E402 - it lies there

PAGE = ROOT / "docs" / "architecture.md"


def main() -> None:
    """Put the drawing in the place of the page's."""
    page = PAGE.read_text("utf-8")
    block = f"```mermaid\n{drawing()}\n```"
    PAGE.write_text(re.sub(r"```mermaid\n.*?```", lambda _: block, page, flags=re.S), "utf-8")


if __name__ == "__main__":
    main()
