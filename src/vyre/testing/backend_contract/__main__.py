"""``python -m vyre.testing.backend_contract NAME [-k GLOB] [--json]``: exit code 0 if nothing failed, 2 for an unknown
backend."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from vyre.adapters.discovery import load_catalog
from vyre.testing.backend_contract import CASES, Subject, run_cases
from vyre.testing.outcomes import print_outcomes


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m vyre.testing.backend_contract", description=__doc__)
    parser.add_argument("backend", metavar="NAME")
    parser.add_argument("-k", dest="pattern", default="*", metavar="GLOB", help="only cases whose id fits")
    parser.add_argument("--json", action="store_true", help="one JSON object a case instead of lines")
    options = parser.parse_args(arguments)
    registration = load_catalog().get(options.backend)
    if registration is None:
        print(f"no backend is called `{options.backend}`. Fix: run `vyre backends` for their names.", file=sys.stderr)
        return 2
    with Subject(registration) as subject:
        return print_outcomes(run_cases(CASES, subject, options.pattern), as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())
