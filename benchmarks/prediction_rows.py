"""How often the next shape is predicted, beside the reference rule and beside every context of fixed length.

Everything but the last row is deterministic, so the samples of a row are equal.  The figures include the cold start:
what could not be known yet counts as missed.  The rivals of fixed length know no bound of memory and are chosen
afterwards, by their result on the very trace.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cache, partial
from itertools import product
from random import Random
from typing import Final, NamedTuple, Protocol

from benchmarks import gallery_trace
from benchmarks.harness import Metric, Row, Samples, measure
from vyre.app.shape_predictor import ShapePredictor
from vyre.policies.prediction.shape_prediction import LEARNING, PINNED, PredictionThresholds

Trace = Sequence[Hashable]
MOST_ORDER: Final = 20
CONFIDENT_BPS: Final = 6_000
"""The confidence that ``trace_jit`` asks for by default, in basis points."""
_STEPS: Final = 1_200


class Guesser(Protocol):
    """Anything that can be asked before each shape and told it afterwards."""

    def guess(self) -> Hashable | None: ...
    def record(self, shape: Hashable) -> None: ...


class Learned:
    """``ShapePredictor``."""

    def __init__(self, thresholds: PredictionThresholds = LEARNING) -> None:
        self._predictor: ShapePredictor[Hashable] = ShapePredictor(thresholds)
        self.record = self._predictor.record
        self.predict = self._predictor.predict

    def guess(self) -> Hashable | None:
        found = self.predict()
        return found and found.shape


class FixedOrder:
    """Guesses the shape that followed the last ``order`` shapes most often, or most recently.

    ``shorter``: where nothing followed them yet, the next shorter context is asked.
    """

    def __init__(self, order: int, *, newest: bool, shorter: bool) -> None:
        self._orders = range(order, -1, -1) if shorter else range(order, order + 1)
        self._newest = newest
        self._seen: tuple[Hashable, ...] = ()
        self._followers: dict[tuple[Hashable, ...], dict[Hashable, int]] = {}

    def _contexts(self) -> Iterator[tuple[Hashable, ...]]:
        return (self._seen[len(self._seen) - order :] for order in self._orders if order <= len(self._seen))

    def guess(self) -> Hashable | None:
        for context in self._contexts():
            if counts := self._followers.get(context):
                return max(counts, key=counts.__getitem__)
        return None

    def record(self, shape: Hashable) -> None:
        for context in self._contexts():
            counts = self._followers.setdefault(context, {})
            if self._newest:
                counts.clear()
            counts[shape] = counts.get(shape, 0) + 1
        self._seen = (*self._seen, shape)[-MOST_ORDER:]


def percent_right(guesser: Guesser, trace: Trace) -> float:
    """Of all shapes in the trace, how many in a hundred were guessed."""
    hits = 0
    for shape in trace:
        hits += guesser.guess() == shape
        guesser.record(shape)
    return 100 * hits / len(trace)


def best_fixed(trace: Trace) -> float:
    """The best percentage of all the rivals."""
    return max(
        percent_right(FixedOrder(order, newest=newest, shorter=shorter), trace)
        for order in range(MOST_ORDER + 1)
        for newest in (False, True)
        for shorter in (False, True)
    )


def gallery(*, values: bool, laps: int) -> Trace:
    """Returns the dispatches of ``laps`` runs of the gallery: by shape, or with the values of its parameters too."""
    lines = gallery_trace.load()
    return (lines if values else [line.split("\t")[0] for line in lines]) * laps


def _cycles() -> Iterator[Trace]:
    """Drawn from two shapes each, three and four."""
    for shapes, seed in product((2, 3, 4), range(20)):
        yield tuple(Random(f"{shapes} {seed}").choices(range(shapes), k=20))


PERIOD_3: Final = tuple([*pattern] * (_STEPS // 3) for pattern in ("abc", "aab", "aba", "abb"))
CYCLE_20: Final = tuple(range(20)) * (_STEPS // 20)
CYCLES_20: Final = tuple(tuple(cycle) * (_STEPS // 20) for cycle in (*_cycles(), (0,) * 19 + (1,)))
TRACES: Final[dict[str, Callable[[], Trace]]] = {
    "shapes": partial(gallery, values=False, laps=1),
    "shapes_10_laps": partial(gallery, values=False, laps=10),
    "values": partial(gallery, values=True, laps=1),
    "values_10_laps": partial(gallery, values=True, laps=10),
}


class Right(NamedTuple):
    """In percent; ``beside``: of whatever it is compared with."""

    ours: float
    beside: float


@cache
def period_3() -> Right:
    """The worst of all patterns, of either predictor."""
    ours, beside = (min(percent_right(Learned(t), trace) for trace in PERIOD_3) for t in (LEARNING, PINNED))
    return Right(ours, beside)


@cache
def cycle_20() -> Right:
    return Right(percent_right(Learned(), CYCLE_20), percent_right(Learned(PINNED), CYCLE_20))


@cache
def cycle_20_again() -> Right:
    """The worst of cycles in which shapes come again, of either predictor."""
    ours, beside = (min(percent_right(Learned(t), trace) for trace in CYCLES_20) for t in (LEARNING, PINNED))
    return Right(ours, beside)


@cache
def over_best_fixed(trace: str) -> Right:
    """Hits in percent of those of the best order; beside it, those of the reference rule."""
    requested = TRACES[trace]()
    best = best_fixed(requested)
    return Right(*(100 * percent_right(Learned(t), requested) / best for t in (LEARNING, PINNED)))


@cache
def confident() -> Right:
    """Of the guesses that ``trace_jit`` would act on, how many came true; beside it, how many there are of all."""
    guesser, acted, hits = Learned(), 0, 0
    trace = TRACES["values_10_laps"]()
    for shape in trace:
        found = guesser.predict()
        if found is not None and found.confidence_bps >= CONFIDENT_BPS:
            acted += 1
            hits += found.shape == shape
        guesser.record(shape)
    return Right(100 * hits / acted, 100 * acted / len(trace))


def _cost(rounds: int) -> Samples:
    """A dispatch: the shape is recorded, and the next one predicted."""
    guesser, trace = Learned(), TRACES["values"]()

    def lap() -> None:
        for shape in trace:
            guesser.record(shape)
            guesser.guess()

    taken = measure(lap, rounds)
    return Samples([seconds / len(trace) for seconds in taken.ours])


def _share(name: str, unit: str, required: float, found: Callable[[], Right], state: str) -> Row:
    def run(rounds: int) -> Samples:
        right = found()
        return Samples([right.ours] * rounds, [right.beside] * rounds)

    return Row(name, Metric.RATE, unit, required, None, run, state)


_BESIDE_REFERENCE: Final = "cold start included; theirs: the reference rule"

ROWS: Final = (
    _share("period_3", "% right", 99.0, period_3, _BESIDE_REFERENCE),
    _share("cycle_20", "% right", 95.0, cycle_20, _BESIDE_REFERENCE),
    _share("cycle_20_of_few", "% right", 95.0, cycle_20_again, f"{_BESIDE_REFERENCE}; two to four shapes a cycle"),
    *(
        _share(f"gallery_{name}", "% of best order", 98.0, partial(over_best_fixed, name), _BESIDE_REFERENCE)
        for name in TRACES
    ),
    _share(
        "gallery_confident",
        "% right",
        CONFIDENT_BPS / 100,
        confident,
        "of guesses confident enough to compile for; theirs: how many in a hundred dispatches have one",
    ),
    Row("record_and_predict", Metric.COST, "us", 60.0, None, _cost, "a lap of the gallery was seen before", scale=1e6),
)
