"""The rows measure single decisions, all those of a dispatch together, and the planners of long sequences.

Multiples are of building a frozen dataclass of four fields, so their bounds hold on any quiet machine.
"""

from __future__ import annotations

import random
import timeit
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from benchmarks.decision_cases import SCALAR_DECISIONS, SCALAR_PLANS, Call, yardstick
from benchmarks.harness import Metric, Row, Samples, compare, measure
from vyre.policies.concurrency.hazards import Access, AccessMode, HazardInputs, hazard_graph
from vyre.policies.frontiers.waves import BarrierInputs, plan_barriers

DECISION_MULTIPLES: Final = 3.0
PLAN_MULTIPLES: Final = 12.0
SCALAR_US: Final = 5.0

_ACCESSES: Final = 1_000
_RESOURCES: Final = 32
_MOST_INTERVALS: Final = 8
_WAVES: Final = 10_000
_DEPENDENCIES: Final = 40_000


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
    """One resource, of which half of the operations write parts of their own that the others all read: as many edges
    as there can be, 250 000."""
    half = _ACCESSES // 2
    accesses = [Access(0, AccessMode.WRITE, _parts(first, _MOST_INTERVALS, half)) for first in range(half)]
    accesses += [Access(0, AccessMode.READ)] * half
    return HazardInputs(tuple((access,) for access in accesses))


def whole_buffers() -> HazardInputs:
    """Every operation writes the same interval."""
    return HazardInputs(tuple((Access(0, AccessMode.WRITE, ((0, 8_000),)),) for _ in range(_ACCESSES)))


def nested_writers() -> HazardInputs:
    """Each operation writes a part of what the one before it wrote."""
    return HazardInputs(tuple((Access(0, AccessMode.WRITE, ((i, 3_000 - i),)),) for i in range(_ACCESSES)))


def writers_and_readers_in_turn() -> HazardInputs:
    """A part of its own is written, then everything is read, and so on."""
    half = _ACCESSES // 2
    writes = [Access(0, AccessMode.WRITE, _parts(first, _MOST_INTERVALS, half)) for first in range(half)]
    read = Access(0, AccessMode.READ)
    return HazardInputs(tuple((access,) for write in writes for access in (write, read)))


def interleaved_writers() -> HazardInputs:
    """One resource; operations write many parts, every second one, the even and the odd ones in turn."""
    written = [_parts(first, 8 * _MOST_INTERVALS, 2) for first in (0, 1)]
    return HazardInputs(tuple((Access(0, AccessMode.WRITE, written[i % 2]),) for i in range(_ACCESSES)))


def _parts(first: int, count: int, apart: int) -> tuple[tuple[int, int], ...]:
    """Intervals of 16 bytes; ``first`` and ``apart`` in intervals."""
    return tuple((16 * i, 16 * i + 16) for i in range(first, first + count * apart, apart))


def _hazards(inputs: Callable[[], HazardInputs], edges: int | None = None) -> Callable[[int], Samples]:
    def run(rounds: int) -> Samples:
        given = inputs()
        found = sum(map(len, hazard_graph(given).predecessors))
        if edges not in (None, found):
            raise AssertionError(f"{found} edges instead of {edges}")
        return measure(lambda: hazard_graph(given), rounds)

    return run


def waves(reach: int) -> BarrierInputs:
    """Dependencies of a wave on another at most ``reach`` before it: the shorter, the more barriers."""
    random_ = random.Random(1)
    firsts = (random_.randrange(_WAVES - reach) for _ in range(_DEPENDENCIES))
    return BarrierInputs(_WAVES, tuple((first, first + random_.randint(1, reach)) for first in firsts))


def _waves(reach: int, least_barriers: int) -> Callable[[int], Samples]:
    def run(rounds: int) -> Samples:
        given = waves(reach)
        if plan_barriers(given).global_barriers < least_barriers:
            raise AssertionError("fewer barriers than the dependencies need")
        return measure(lambda: plan_barriers(given), rounds)

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
    _row("worst_decision", _every(SCALAR_DECISIONS), SCALAR_US),
    _row("worst_plan", _every(SCALAR_PLANS), SCALAR_US),
    *_multiples("decision:", SCALAR_DECISIONS, DECISION_MULTIPLES),
    *_multiples("plan:", SCALAR_PLANS, PLAN_MULTIPLES),
    Row("waves_shallow", Metric.COST, "ms", 100.0, None, _waves(_WAVES // 2, 10), _BUILT, scale=1e3),
    Row("waves_deep", Metric.COST, "ms", 100.0, None, _waves(20, 2000), _BUILT, scale=1e3),
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
    Row("hazards_whole", Metric.COST, "ms", 100.0, None, _hazards(whole_buffers, edges=999), _BUILT, scale=1e3),
    Row("hazards_nested", Metric.COST, "ms", 100.0, None, _hazards(nested_writers, edges=999), _BUILT, scale=1e3),
    Row(
        "hazards_in_turn",
        Metric.COST,
        "ms",
        100.0,
        None,
        _hazards(writers_and_readers_in_turn, edges=999),
        _BUILT,
        scale=1e3,
    ),
    Row("hazards_interleaved", Metric.COST, "ms", 100.0, None, _hazards(interleaved_writers), _BUILT, scale=1e3),
)
