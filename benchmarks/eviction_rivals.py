"""Ours, and the eviction policies that it is measured against, by their published descriptions.

Sizes count as theirs allow: a victim is taken until the new entry fits.  ``request`` answers whether it was a hit, and
takes the entry in otherwise; what is larger than the cache stays out, with every policy.
"""

from __future__ import annotations

import heapq
import math
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final, Protocol

from benchmarks.eviction_traces import Kernel
from vyre.adapters.caching.cost_eviction import CostEviction
from vyre.policies.caching.cache_eviction_heat import HeatThresholds


class Cache(Protocol):
    def request(self, name: int, kernel: Kernel) -> bool: ...


class Lru:
    """The least recently used leaves."""

    def __init__(self, budget: int) -> None:
        self._budget, self._used = budget, 0
        self._entries: OrderedDict[int, int] = OrderedDict()

    def request(self, name: int, kernel: Kernel) -> bool:
        if name in self._entries:
            self._entries.move_to_end(name)
            return True
        if kernel.nbytes <= self._budget:
            self._entries[name] = kernel.nbytes
            self._used += kernel.nbytes
            while self._used > self._budget:
                self._used -= self._entries.popitem(last=False)[1]
        return False


class _Ranked:
    """The lowest rank leaves; a heap with lazy deletion."""

    def __init__(self, budget: int) -> None:
        self._budget, self._used, self._now = budget, 0, 0
        self._sizes: dict[int, int] = {}
        self._ranks: dict[int, tuple[float, int]] = {}
        self._heap: list[tuple[float, int, int]] = []

    def request(self, name: int, kernel: Kernel) -> bool:
        self._now += 1
        if name in self._sizes:
            self._set(name, self._rank_of(name, kernel, new=False))
            return True
        if kernel.nbytes <= self._budget:
            while self._used + kernel.nbytes > self._budget:
                self._evict()
            self._sizes[name] = kernel.nbytes
            self._used += kernel.nbytes
            self._set(name, self._rank_of(name, kernel, new=True))
        return False

    def _set(self, name: int, rank: float) -> None:
        self._ranks[name] = rank, self._now
        heapq.heappush(self._heap, (rank, self._now, name))

    def _evict(self) -> None:
        while True:
            rank, since, name = heapq.heappop(self._heap)
            if self._ranks.get(name) == (rank, since):
                break
        del self._ranks[name]
        self._used -= self._sizes.pop(name)

    def _rank_of(self, name: int, kernel: Kernel, *, new: bool) -> float:
        raise NotImplementedError


class Lfu(_Ranked):
    """The least frequently used since it came in; the least recently used of several."""

    def _rank_of(self, name: int, kernel: Kernel, *, new: bool) -> float:
        return 1 if new else self._ranks[name][0] + 1


class Heat(_Ranked):
    """``cache_eviction_heat``.  The logarithm of heat, less what is the same for all entries, does not change with
    time: ``log2(weight * hits) + last / half_life``; so a heap gives the coldest.  A request takes a second."""

    _SECONDS = 1.0

    def __init__(self, budget: int) -> None:
        super().__init__(budget)
        self._hits: dict[int, int] = {}
        self._half_life_s = HeatThresholds().half_life_s

    def _rank_of(self, name: int, kernel: Kernel, *, new: bool) -> float:
        self._hits[name] = 1 if new else self._hits[name] + 1
        weight = self._weight(kernel)
        return math.log2(weight * self._hits[name]) + self._now * self._SECONDS / self._half_life_s

    def _weight(self, kernel: Kernel) -> float:
        return 1.0


class HeatByCost(Heat):
    """The same with rebuild cost per byte as the weight."""

    def _weight(self, kernel: Kernel) -> float:
        return kernel.cost / kernel.nbytes


class BusyHeat(Heat):
    """Ten requests a second, so that half a life is 3 000 of them."""

    _SECONDS = 0.1


class IdleHeat(Heat):
    """A request in ten seconds, so that half a life is 30 of them."""

    _SECONDS = 10.0


class Sieve:
    """SIEVE (Zhang et al., NSDI 2024): a queue, one bit an entry, and a hand that goes from old to new."""

    def __init__(self, budget: int) -> None:
        self._budget, self._used = budget, 0
        self._sizes: dict[int, int] = {}
        self._visited: dict[int, bool] = {}
        self._older: dict[int, int | None] = {}
        self._newer: dict[int, int | None] = {}
        self._newest: int | None = None
        self._oldest: int | None = None
        self._hand: int | None = None

    def request(self, name: int, kernel: Kernel) -> bool:
        if name in self._sizes:
            self._visited[name] = True
            return True
        if kernel.nbytes <= self._budget:
            while self._used + kernel.nbytes > self._budget:
                self._evict()
            self._push(name)
            self._sizes[name], self._visited[name] = kernel.nbytes, False
            self._used += kernel.nbytes
        return False

    def _push(self, name: int) -> None:
        self._older[name], self._newer[name] = self._newest, None
        if self._newest is not None:
            self._newer[self._newest] = name
        self._newest = name
        if self._oldest is None:
            self._oldest = name

    def _evict(self) -> None:
        at = self._hand if self._hand is not None else self._oldest
        assert at is not None
        while self._visited[at]:
            self._visited[at] = False
            following = self._newer[at]
            at = following if following is not None else self._oldest
            assert at is not None
        older, newer = self._older.pop(at), self._newer.pop(at)
        self._hand = newer
        if older is not None:
            self._newer[older] = newer
        else:
            self._oldest = newer
        if newer is not None:
            self._older[newer] = older
        else:
            self._newest = older
        del self._visited[at]
        self._used -= self._sizes.pop(at)


class S3Fifo:
    """S3-FIFO (Yang et al., SOSP 2023): a small queue of 10 %, a main one, and the names of as much as the main one
    holds that left the small one.  Two bits count; what was asked for twice more moves on from the small queue."""

    _SMALL = 0.1
    _MOVE_FROM = 2

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._small_budget = max(1, int(budget * self._SMALL))
        self._small: deque[int] = deque()
        self._main: deque[int] = deque()
        self._small_used = self._main_used = self._ghost_used = 0
        self._sizes: dict[int, int] = {}
        self._count: dict[int, int] = {}
        self._ghosts: OrderedDict[int, int] = OrderedDict()

    def request(self, name: int, kernel: Kernel) -> bool:
        if name in self._sizes:
            self._count[name] = min(self._count[name] + 1, 3)
            return True
        if kernel.nbytes > self._budget:
            return False
        while self._small_used + self._main_used + kernel.nbytes > self._budget:
            self._evict()
        self._sizes[name], self._count[name] = kernel.nbytes, 0
        if name in self._ghosts:
            self._ghost_used -= self._ghosts.pop(name)
            self._main.append(name)
            self._main_used += kernel.nbytes
        else:
            self._small.append(name)
            self._small_used += kernel.nbytes
        return False

    def _evict(self) -> None:
        if self._small and (self._small_used >= self._small_budget or not self._main):
            self._evict_small()
        else:
            self._evict_main()

    def _evict_small(self) -> None:
        while self._small:
            name = self._small.popleft()
            size = self._sizes[name]
            self._small_used -= size
            if self._count[name] >= self._MOVE_FROM:
                self._count[name] = 0
                self._main.append(name)
                self._main_used += size
                continue
            del self._sizes[name], self._count[name]
            self._ghosts[name] = size
            self._ghost_used += size
            while self._ghost_used > self._budget - self._small_budget:
                self._ghost_used -= self._ghosts.popitem(last=False)[1]
            return

    def _evict_main(self) -> None:
        while True:
            name = self._main.popleft()
            if self._count[name] > 0:
                self._count[name] -= 1
                self._main.append(name)
                continue
            del self._count[name]
            self._main_used -= self._sizes.pop(name)
            return


class Ours:
    """``CostEviction``, asked like a cache asks it."""

    def __init__(self, budget: int) -> None:
        self._budget, self._used = budget, 0
        self._sizes: dict[int, int] = {}
        self._policy: CostEviction[int] = CostEviction()

    def request(self, name: int, kernel: Kernel) -> bool:
        if name in self._sizes:
            self._policy.hit(name)
            return True
        if kernel.nbytes <= self._budget:
            while self._used + kernel.nbytes > self._budget:
                self._used -= self._sizes.pop(self._policy.evict())
            self._policy.admit(name, kernel.nbytes, kernel.cost)
            self._sizes[name] = kernel.nbytes
            self._used += kernel.nbytes
        return False


RIVALS: Final[dict[str, Callable[[int], Cache]]] = {
    "LRU": Lru,
    "LFU": Lfu,
    "SIEVE": Sieve,
    "S3-FIFO": S3Fifo,
    "heat": Heat,
    "heat, 10 requests a second": BusyHeat,
    "heat, a request in 10 s": IdleHeat,
}
BESIDE: Final[dict[str, Callable[[int], Cache]]] = {"heat by cost per byte": HeatByCost}
"""Not among the rivals, since its weights are 1 unless a caller sets them; reported for whoever wants to."""
