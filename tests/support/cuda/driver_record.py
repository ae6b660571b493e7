"""Which cases hardware has confirmed, and when: ``tests/data/driver_cases.json``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Final

from driver_contract.case import Case

RECORD: Final = Path(__file__).parents[2] / "data" / "driver_cases.json"
NEVER: Final = "never"
UNDEFINED: Final = "undefined"
"""Of a case that the driver API leaves open: it is not run on hardware."""


def read_record() -> dict[str, str]:
    """Case to the day on which a GPU last passed it, ``never`` or ``undefined``."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    return {name: entry["verified_on_gpu"] for name, entry in record.items()}


def write_record(cases: Iterable[Case], passed: Iterable[str] = (), failed: Iterable[str] = ()) -> None:
    """Rewrite the record after a run on a GPU: what passed has today's date, what failed is unverified.

    The rest keeps its entry; cases that are no more lose theirs.
    """
    before = read_record() if RECORD.exists() else {}
    found = {case.name: before.get(case.name, NEVER) if case.hardware else UNDEFINED for case in cases}
    found |= dict.fromkeys(failed, NEVER) | dict.fromkeys(passed, date.today().isoformat())
    record = {name: {"verified_on_gpu": found[name]} for name in sorted(found)}
    RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
