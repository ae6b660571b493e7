"""The contract of the backend port as cases that run unchanged on every backend.

For authors of a backend::

    from vyre.testing.backend_contract import CASES, Subject, run_case

    with Subject(MY_REGISTRATION) as subject:
        for case in CASES:
            print(run_case(case, subject))

A case is a name, a rule in words and a function; it needs no test framework.  Within one, use ``check_case``, which
raises.  A case is skipped only for the lack of a facet, a feature or an order of lanes, which its outcome names.
``python -m vyre.testing.backend_contract NAME`` runs all cases on a backend of the catalog.
"""

from vyre.testing.backend_contract.bench import Bench, Skipped, Subject, Violation
from vyre.testing.backend_contract.case import Case, check_case, run_case, run_cases
from vyre.testing.backend_contract.catalog import CASES

__all__ = ["CASES", "Bench", "Case", "Skipped", "Subject", "Violation", "check_case", "run_case", "run_cases"]
