"""The command ``vyre``: a thin adapter over the session.

Exit codes: 0 ok, 1 invalid program or wrong result, 2 usage or unreadable input, 3 backend unavailable or
unsupported, 4 execution failed, 130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code; ``arguments`` default to the process's own."""
    try:
        from vyre.app.cli.commands import run_command

        return run_command(sys.argv[1:] if arguments is None else list(arguments))
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in {"typer", "rich", "click"}:
            raise
        print(f"the vyre command needs `{package}`. Fix: pip install 'vyre[cli]'", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
