"""Runs the cases that need no execution on the driver library of this process; prints failures by name, as JSON."""

from __future__ import annotations

import json
import traceback

from support.driver_contract import CASES
from vyre.adapters.cuda.driver import RealDriver


def main() -> None:
    driver, outcomes = RealDriver(), dict[str, str | None]()
    for case in CASES:
        if not case.needs_execution:
            try:
                case.run(driver)
                outcomes[case.name] = None
            except Exception:
                outcomes[case.name] = traceback.format_exc()
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main()
