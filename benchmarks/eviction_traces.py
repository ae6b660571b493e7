"""Requests to a cache of compiled kernels, by family: deterministic, from a seed.

The families were fixed before any policy was tuned.  A kernel has one cost (time to rebuild it) and one size for the
whole trace; ``COSTS`` says how they are drawn.
"""

from __future__ import annotations

import bisect
import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

KERNELS: Final = 1_000
"""Kernels that a program of the trace has, where its family does not say otherwise."""
MEDIAN_COST_NS: Final = 50_000_000
MEDIAN_BYTES: Final = 10_240
COST_SPREAD: Final = 1.0
"""Sigma of the logarithm of costs: 90 % of them lie within a factor of 5 of the median."""
SIZE_SPREAD: Final = 1.0
COST_OF_SIZE: Final = 0.5
"""Correlation of the two logarithms: long code takes long to compile."""


class Kernel(NamedTuple):
    """``cost``: ns to rebuild; ``nbytes``: what it takes in the cache."""

    cost: int
    nbytes: int


class Trace(NamedTuple):
    """``requests`` are indices into ``kernels``."""

    requests: Sequence[int]
    kernels: Sequence[Kernel]

    @property
    def mean_bytes(self) -> float:
        return sum(kernel.nbytes for kernel in self.kernels) / len(self.kernels)


# ---- families: ``length`` requests for a cache of about ``entries`` kernels


def zipf(rng: random.Random, length: int, entries: int) -> Iterator[int]:
    """A stationary popularity, Zipf with exponent 0.9."""
    pick = _zipf(rng, KERNELS, 0.9)
    return (pick() for _ in range(length))


def drifting(rng: random.Random, length: int, entries: int) -> Iterator[int]:
    """Zipf over other kernels every quarter of the trace, a tenth of which were popular before."""
    pick = _zipf(rng, KERNELS, 0.9)
    for phase in range(4):
        names = [rank if rng.random() < 0.1 else (phase + 1) * KERNELS + rank for rank in range(KERNELS)]
        yield from (names[pick()] for _ in range(length // 4))


def one_hit(rng: random.Random, length: int, entries: int) -> Iterator[int]:
    """Half of the requests are for kernels that nobody asks for again: shapes seen once."""
    pick = _zipf(rng, KERNELS, 0.9)
    fresh = itertools.count(KERNELS)
    return (next(fresh) if rng.random() < 0.5 else pick() for _ in range(length))


def loop(rng: random.Random, length: int, entries: int) -> Iterator[int]:
    """Layers of a model in order, again and again, a sixth more of them than the cache holds."""
    size = max(2, entries * 7 // 6)
    return (i % size for i in range(length))


def bursts(rng: random.Random, length: int, entries: int) -> Iterator[int]:
    """New kernels, each wanted several times within a short while and then no more: an interactive session."""
    pick = _zipf(rng, entries, 0.7)
    for step in range(length):
        yield step // 8 + pick()


def scans(rng: random.Random, length: int, entries: int) -> Iterator[int]:
    """Zipf, interrupted by sweeps over kernels that are asked for once: a tuner's candidates."""
    pick = _zipf(rng, KERNELS, 0.9)
    fresh = itertools.count(KERNELS)
    for step in range(length):
        yield next(fresh) if step % (entries * 6) < entries * 2 else pick()


def recent(rng: random.Random, length: int, entries: int) -> Iterator[int]:
    """The shorter ago a kernel was used, the likelier it is next: log-uniform depths of an LRU stack."""
    stack = list(range(KERNELS))
    for _ in range(length):
        depth = int(math.exp(rng.random() * math.log(KERNELS)))
        found = stack.pop(min(depth, KERNELS) - 1)
        stack.insert(0, found)
        yield found


def alternating(rng: random.Random, length: int, entries: int) -> Iterator[int]:
    """Two models take turns, each with a popularity of its own; together they do not fit."""
    pick = _zipf(rng, entries, 0.6)
    turn = entries * 4
    return (pick() + entries * (step // turn % 2) for step in range(length))


FAMILIES: Final[dict[str, Callable[[random.Random, int, int], Iterator[int]]]] = {
    family.__name__: family for family in (zipf, drifting, one_hit, loop, bursts, scans, recent, alternating)
}


def _zipf(rng: random.Random, count: int, exponent: float) -> Callable[[], int]:
    """Ranks from 0 on; which kernel has which rank is drawn too, so that cost says nothing of popularity."""
    total = list(itertools.accumulate((rank + 1) ** -exponent for rank in range(count)))
    names = list(range(count))
    rng.shuffle(names)
    return lambda: names[min(bisect.bisect(total, rng.random() * total[-1]), count - 1)]


# ---- costs and sizes


def uniform(rng: random.Random) -> Kernel:
    return Kernel(MEDIAN_COST_NS, MEDIAN_BYTES)


def cost(rng: random.Random) -> Kernel:
    """Log-normal cost, one size."""
    return Kernel(_scaled(MEDIAN_COST_NS, COST_SPREAD, rng.gauss(0, 1)), MEDIAN_BYTES)


def cost_and_size(rng: random.Random) -> Kernel:
    """Log-normal cost and size, correlated."""
    size, own = rng.gauss(0, 1), rng.gauss(0, 1)
    mixed = COST_OF_SIZE * size + math.sqrt(1 - COST_OF_SIZE**2) * own
    return Kernel(_scaled(MEDIAN_COST_NS, COST_SPREAD, mixed), _scaled(MEDIAN_BYTES, SIZE_SPREAD, size))


COSTS: Final[dict[str, Callable[[random.Random], Kernel]]] = {
    draw.__name__: draw for draw in (uniform, cost, cost_and_size)
}


def _scaled(median: int, spread: float, normal: float) -> int:
    return max(1, round(median * math.exp(spread * normal)))


def trace(family: str, costs: str, entries: int, seed: int, length: int) -> Trace:
    """A trace of a family; the requests are the same whatever the costs."""
    requests = list(FAMILIES[family](random.Random(f"{family}/{seed}"), length, entries))
    rng = random.Random(f"{costs}/{seed}")
    return Trace(requests, [COSTS[costs](rng) for _ in range(max(requests) + 1)])
