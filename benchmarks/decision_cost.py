"""What every decision costs in multiples of the yardstick, as JSON; the test of costs runs this in a fresh process,
where no debugger and no coverage slows one side more than the other."""

from __future__ import annotations

import json
from timeit import timeit
from typing import Final

from benchmarks.decision_cases import COMPOSED, SCALAR_DECISIONS, SCALAR_PLANS, Call, yardstick
from benchmarks.decision_rows import dearest

_ROUNDS: Final = 40
_CALLS: Final = 400


def multiples() -> dict[str, dict[str, float]]:
    """By kind and name."""
    kinds = {"decision": SCALAR_DECISIONS, "plan": SCALAR_PLANS, "composed": COMPOSED}
    return {kind: {name: _multiple(dearest(calls)) for name, calls in cases.items()} for kind, cases in kinds.items()}


def _multiple(call: Call) -> float:
    """The best of several rounds on either side, taken in turn."""
    rounds = [(timeit(call, number=_CALLS), timeit(yardstick, number=_CALLS)) for _ in range(_ROUNDS)]
    return min(ours for ours, _ in rounds) / min(theirs for _, theirs in rounds)


if __name__ == "__main__":
    print(json.dumps(multiples()))
