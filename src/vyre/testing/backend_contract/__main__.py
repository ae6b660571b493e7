"""``python -m vyre.testing.backend_contract NAME [--schedule S] [--seed N] [-k GLOB] [--json]``.

Exit code: 0 if nothing failed, 1 if something did, 2 for a backend that does not exist or cannot choose its schedule.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from vyre.adapters.terminal import command, complain
from vyre.domain.errors import BackendUnavailable
from vyre.domain.printable import indented
from vyre.testing.backend_contract import CASES, Subject, run_cases
from vyre.testing.execution import SCHEDULES, find_scheduled
from vyre.testing.outcomes import print_outcomes


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m vyre.testing.backend_contract", description=__doc__)
    parser.add_argument("backend", metavar="NAME")
    parser.add_argument("--schedule", choices=SCHEDULES, help="order of lanes, for a backend that can choose")
    parser.add_argument("--seed", type=int, help="of what an emulated device draws at random")
    parser.add_argument("-k", dest="pattern", default="*", metavar="GLOB", help="only cases whose id fits")
    parser.add_argument("--json", action="store_true", help="one JSON object a case instead of lines")
    options = parser.parse_args(arguments)
    try:
        registration, canonical_order = find_scheduled(options.backend, options.schedule, options.seed)
    except BackendUnavailable as error:
        complain(indented(str(error)))
        return 2
    with Subject(registration, canonical_order=canonical_order) as subject:
        return print_outcomes(run_cases(CASES, subject, options.pattern), as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())
