"""``python -m tests.vectors PATH...``, from the root of the repository."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where the tests import their own packages from

from vectors.runner import main

if __name__ == "__main__":
    sys.exit(main())
