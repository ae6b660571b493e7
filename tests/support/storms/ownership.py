"""An audit of the records that vyre's objects keep of what they own: each item has one owner, never two or none.

``doubles`` must find nothing at any moment at which no operation is under way.  ``losses`` counts what nobody owns:
an interrupt may lose some of it, once, and never more than that.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from ctypes import c_uint64
from typing import Any, Final

from vyre.adapters.caching.memory_cache import MemoryCache
from vyre.adapters.cpu.pool import layout as at
from vyre.adapters.cpu.pool.job import PoolRecord
from vyre.adapters.cpu.pool.ring import Ring
from vyre.adapters.cpu.pool.worker_pool import _SHARED, WorkerPool
from vyre.adapters.cpu.runtime.memory_pool import MemoryPool
from vyre.adapters.cpu.runtime.pending import IdleSlots
from vyre.adapters.cpu.runtime.persistent import CpuEngine
from vyre.adapters.cuda.runtime.host_slot import SlotPool
from vyre.adapters.cuda.runtime.mailbox import RowMemory
from vyre.adapters.cuda.runtime.memory import _Blocks
from vyre.adapters.cuda.runtime.resident_run import ResidentRunner
from vyre.adapters.cuda.runtime.streams import StreamPool


def owners() -> list[object]:
    """Returns the objects of the process that own something which others get for a while."""
    return [one for one in _objects() if type(one) in _DOUBLES]


def doubles(among: Iterable[object]) -> list[str]:
    """Returns what has two owners, and which sums are not those of what they count."""
    return [f"{type(one).__name__}: {wrong}" for one in among for wrong in _DOUBLES[type(one)](one)]


def losses() -> Counter[str]:
    """Returns how much of what is counted nobody owns, by name, in all objects of the process."""
    gc.collect()
    found: Counter[str] = Counter()
    for one in _objects():
        if (look := _LOSSES.get(type(one))) is not None:
            found.update(look(one))
    return found


def _objects() -> Iterator[object]:
    """Yields the objects that the collector looks at, and the pools, which earlier tests may have made."""
    yield from _SHARED.values()
    yield from [one for one in gc.get_objects() if type(one) is not WorkerPool or one not in _SHARED.values()]


def _twice(name: str, items: Iterable[Any]) -> Iterator[str]:
    counts = Counter(each if isinstance(each, int) else id(each) for each in items)
    if counts and max(counts.values()) > 1:
        yield f"{name} has the same item {max(counts.values())} times"


def _sum(name: str, told: int, items: Iterable[int]) -> Iterator[str]:
    total = sum(items)
    if told != total:
        yield f"{name} is {told}, and its items have {total}"


def _engine(engine: CpuEngine) -> Iterator[str]:
    under_way = [memory for _, memory in list(engine._dropped)]
    yield from _twice("the memory of jobs", [*engine._free, *engine._jobs.values(), *under_way])
    if not engine._all.issuperset(engine._free):
        yield "idle memory that is not its own"


def _idle_slots(slots: IdleSlots) -> Iterator[str]:
    kept = [slot for each in slots._slots.values() for slot in each]
    yield from _twice("the idle slots", kept)
    yield from _sum("the size of the idle slots", slots.nbytes, [slot.nbytes for slot in kept])


def _memory_pool(pool: MemoryPool) -> Iterator[str]:
    kept = [block.address for each in pool._idle.values() for block in each]
    yield from _twice("the idle blocks", [*kept, *[block.address for block in list(pool._returned)]])
    sizes = [capacity * len(each) for capacity, each in pool._idle.items()]
    yield from _sum("the size of the idle blocks", pool._idle_bytes, sizes)


def _device_blocks(blocks: _Blocks[Any]) -> Iterator[str]:
    kept = [block.address for each in blocks._idle.values() for block in each]
    yield from _twice("the blocks", [*kept, *blocks._live])
    sizes = [capacity * len(each) for capacity, each in blocks._idle.items()]
    yield from _sum("the size of the idle blocks", blocks.idle_bytes, sizes)


def _slot_pool(pool: SlotPool) -> Iterator[str]:
    yield from _sum("the size of the slots", pool._bytes, [held.nbytes for held in list(pool._slots)])
    homes = {id(slot.home): slot.home for slot in pool._alive()}
    yield from _twice("the idle slots", [slot for home in homes.values() for slot in home])


def _cache(cache: MemoryCache[Any, Any]) -> Iterator[str]:
    with cache._lock:
        if {*cache._values} != {*cache._entries}:
            yield f"{len(cache._values)} values, and {len(cache._entries)} entries"
        yield from _sum("the size of the values", cache._nbytes, [entry.nbytes for entry in cache._entries.values()])


_DOUBLES: Final[dict[type, Callable[[Any], Iterator[str]]]] = {
    CpuEngine: _engine,
    IdleSlots: _idle_slots,
    MemoryCache: _cache,
    MemoryPool: _memory_pool,
    WorkerPool: lambda pool: _twice("the free records", list(pool._free)),
    _Blocks: _device_blocks,
    RowMemory: lambda rows: _twice(
        "the free rows", [*[each.address for each in rows._single], *[each.address for each in rows._free]]
    ),
    ResidentRunner: lambda runner: _twice("the slots", [*runner._idle, *runner._active]),
    SlotPool: _slot_pool,
    StreamPool: lambda pool: _twice("the streams", [lease.stream for lease in (*pool._idle, *pool._live)]),
}


def _lost_records(pool: WorkerPool) -> dict[str, int]:
    used = sum(isinstance(each, PoolRecord) and each.block == pool.block for each in gc.get_objects())
    rings = [each for each in gc.get_objects() if type(each) is Ring and each.pool is pool and not each.closed]
    free = c_uint64.from_address(pool.block + at.Pool.free_rings).value
    return {
        "records of the pool": pool.counts["records"] - len(pool._free) - used,
        "rings": at.RINGS - free.bit_count() - len(rings),
    }


def _lost_memory(engine: CpuEngine) -> dict[str, int]:
    under_way = {*engine._jobs.values(), *[memory for _, memory in [*engine._dropped, *engine._abandoned]]}
    return {"memory of jobs": len(engine._all) - len(engine._free) - len(engine._all & under_way)}


_LOSSES: Final[dict[type, Callable[[Any], dict[str, int]]]] = {CpuEngine: _lost_memory, WorkerPool: _lost_records}
