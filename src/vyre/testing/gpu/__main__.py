"""``python -m vyre.testing.gpu``."""

from __future__ import annotations

import sys

from vyre.testing.gpu.command import main

if __name__ == "__main__":
    sys.exit(main())
