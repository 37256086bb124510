"""The parts of `benchmarks/tenants.py`, each of which knows those before it.

sending, world, asking, finding, timing, model, holes.
"""

import sys
from pathlib import Path

# The fakes and the server are those of the tests.
sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))
