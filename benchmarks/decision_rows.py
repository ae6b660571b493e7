"""What decisions cost: single ones, all those of a dispatch together, and the planners of long sequences.

Multiples are of building a frozen dataclass of four fields; they hold on any machine, so CI gates them (see
``tests/unit/policies/test_decision_cost.py``), at the bounds that stand here.
"""

from __future__ import annotations

import random
import timeit
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from benchmarks.decision_cases import BUNDLE, SCALAR_DECISIONS, SCALAR_PLANS, Call, yardstick
from benchmarks.harness import Metric, Row, Samples, compare, measure
from vyre.policies.hazards import Access, AccessMode, HazardInputs, hazard_graph

DECISION_MULTIPLES: Final = 3.0
DECISION_US: Final = 5.0
PLAN_MULTIPLES: Final = 16.0
BUNDLE_MULTIPLES: Final = 16.0
BUNDLE_US: Final = 25.0

_ACCESSES: Final = 1_000
_RESOURCES: Final = 32
_MOST_INTERVALS: Final = 8


def dearest(calls: Iterable[Call]) -> Call:
    """The call that takes longest."""
    return max(calls, key=lambda call: min(timeit.repeat(call, number=200, repeat=7)))


def mixed_accesses() -> HazardInputs:
    """Reads and writes of up to eight intervals each, spread over 32 resources."""
    random_ = random.Random(1)

    def access() -> Access:
        cuts = sorted(random_.sample(range(0, 2**20, 256), 2 * random_.randint(1, _MOST_INTERVALS)))
        intervals = tuple(zip(cuts[::2], cuts[1::2], strict=True))
        return Access(random_.randrange(_RESOURCES), random_.choice(list(AccessMode)), intervals)

    return HazardInputs(tuple((access(),) for _ in range(_ACCESSES)))


def readers_of_everything() -> HazardInputs:
    """One resource, of which half of the operations write a part each that the others all read: 250 000 edges."""
    half = _ACCESSES // 2
    written = [((2 * i, 2 * i + 1),) for i in range(half)]
    accesses = [Access(0, AccessMode.WRITE, part) for part in written]
    accesses += [Access(0, AccessMode.READ, ((0, 2 * half),))] * half
    return HazardInputs(tuple((access,) for access in accesses))


def interleaved_writers() -> HazardInputs:
    """One resource; each operation writes every second of 400 parts, the odd and the even ones in turn."""
    parts = [tuple((20 * i + 10 * odd, 20 * i + 10 * odd + 10) for i in range(200)) for odd in (0, 1)]
    return HazardInputs(tuple((Access(0, AccessMode.WRITE, parts[i % 2]),) for i in range(_ACCESSES)))


def _hazards(inputs: Callable[[], HazardInputs], edges: int | None = None) -> Callable[[int], Samples]:
    def run(rounds: int) -> Samples:
        given = inputs()
        found = sum(map(len, hazard_graph(given).predecessors))
        if edges not in (None, found):
            raise AssertionError(f"{found} edges instead of {edges}")
        return measure(lambda: hazard_graph(given), rounds)

    return run


_BUILT: Final = "inputs and thresholds built"


def _row(name: str, calls: Iterable[Call], most_us: float) -> Row:
    return Row(name, Metric.COST, "us", most_us, None, lambda n: measure(dearest(calls), n), _BUILT, scale=1e6)


def _multiples(kind: str, cases: Mapping[str, Sequence[Call]], most: float) -> Iterator[Row]:
    def against_yardstick(calls: Sequence[Call]) -> Callable[[int], Samples]:
        return lambda rounds: compare(dearest(calls), yardstick, rounds)

    for name, calls in cases.items():
        yield Row(f"{kind}{name}", Metric.RATIO, "x dataclass", most, None, against_yardstick(calls), _BUILT)


def _every(cases: Mapping[str, Sequence[Call]]) -> tuple[Call, ...]:
    return tuple(call for calls in cases.values() for call in calls)


ROWS: Final = (
    _row("worst_decision", _every(SCALAR_DECISIONS), DECISION_US),
    _row("worst_plan", _every(SCALAR_PLANS), DECISION_US),
    _row("bundle", BUNDLE, BUNDLE_US),
    *_multiples("multiples_of_the_", {"bundle": BUNDLE}, BUNDLE_MULTIPLES),
    *_multiples("decision:", SCALAR_DECISIONS, DECISION_MULTIPLES),
    *_multiples("plan:", SCALAR_PLANS, PLAN_MULTIPLES),
    Row("hazards_mixed", Metric.COST, "ms", 5.0, None, _hazards(mixed_accesses), _BUILT, scale=1e3),
    Row(
        "hazards_most_edges",
        Metric.COST,
        "ms",
        100.0,
        None,
        _hazards(readers_of_everything, edges=250_000),
        _BUILT,
        scale=1e3,
    ),
    Row("hazards_interleaved", Metric.COST, "ms", 100.0, None, _hazards(interleaved_writers), _BUILT, scale=1e3),
)
