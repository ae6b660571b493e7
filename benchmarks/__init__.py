"""Measurements, each beside what it is compared with in the same run: ``python -m benchmarks`` from the root."""

import sys
from pathlib import Path

# Some rows measure what the tests have built already: kernels, driver rigs, the description of a machine.
sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
