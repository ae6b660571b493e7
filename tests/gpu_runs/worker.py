"""The process of one group; started by the supervisor.  Exit code: 0 if the group ran to its end, 3 if the backend
cannot run here."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from gpu_runs.context import COMMANDS, Context, find_group
from gpu_runs.exit_codes import ExitCode
from gpu_runs.findings import collect


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m gpu_runs.worker", description=__doc__)
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("group")
    parser.add_argument("--backend", required=True)
    parser.add_argument("--tests", type=Path)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--into", type=Path, required=True, metavar="FILE", help="where to leave the findings")
    options = parser.parse_args(arguments)
    context = Context(backend=options.backend, tests=options.tests, seconds=options.seconds, folder=options.into.parent)
    tally = collect(find_group(options.command, options.group).load()(context), options.into)
    return ExitCode.UNUSABLE if tally.unavailable is not None else ExitCode.PASSED


if __name__ == "__main__":
    sys.exit(main())
