"""The command ``vyre``: a thin adapter over the session.

Exit codes: 0 ok, 1 invalid or refused program or wrong result, 2 usage or unreadable input, 3 backend unavailable or
unsupported, 4 execution failed, took too long, or output lost, 130 interrupted, 141 the reader of the output closed the
pipe.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from vyre.adapters.terminal import command, complain
from vyre.app.cli.extra import missing_extra
from vyre.domain.ir.collector import collector_paused


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code; ``arguments`` default to those of the process."""
    try:
        with collector_paused():
            from vyre.app.cli.commands import run_command

        return run_command(sys.argv[1:] if arguments is None else list(arguments))
    except ModuleNotFoundError as error:
        package = missing_extra(error)
        if package is None:
            raise
        complain(f"the vyre command needs `{package}`. Fix: pip install 'vyre[cli]'")
        return 2
    except KeyboardInterrupt:
        complain("interrupted")
        return 130
