"""Write what the running installation is made of, as CycloneDX 1.6.

.venv/bin/python scripts/sbom.py [FILE]
"""

from __future__ import annotations

import sys
from pathlib import Path

from localrag.bundle import sbom

OUT = Path(__file__).resolve().parents[1] / "build" / sbom.SBOM


def main() -> None:
    """Print where it lies."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else OUT
    path.parent.mkdir(parents=True, exist_ok=True)
    bom = sbom.installed()
    sbom.write(bom, path)
    print(f"SBOM: {len(bom.components) + 1} packages in {path}")


if __name__ == "__main__":
    main()
