"""``python -m vyre``: the command ``vyre``."""

import sys

from vyre.app.cli import main

if __name__ == "__main__":
    sys.exit(main())
