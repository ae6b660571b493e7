"""Stream-ordered pools of the emulated driver: who may reuse what, limits, and what goes back when."""

from __future__ import annotations

from support.machine.driver import code_of, rig
from vyre.adapters.cuda.codes import Result
from vyre.adapters.cuda.machine.presets import TINY

SIZE = 1000
CAPACITY = 1024


def test_a_stream_reuses_what_it_freed_before_that_has_run() -> None:
    r = rig()
    first = r.device(SIZE)
    r.driver.mem_free_async(first, r.stream)
    assert r.device(SIZE - 10) == first
    assert r.driver.pool_use(r.pool) == (CAPACITY, CAPACITY)


def test_another_stream_does_not() -> None:
    r = rig()
    other = r.driver.stream_create()
    first = r.device(SIZE)
    r.driver.mem_free_async(first, r.stream)
    assert r.device(SIZE, other) != first
    assert r.driver.pool_use(r.pool) == (CAPACITY, 2 * CAPACITY)


def test_an_event_after_the_free_lets_it() -> None:
    r = rig()
    other, freed = r.driver.stream_create(), r.driver.event_create()
    first = r.device(SIZE)
    r.driver.mem_free_async(first, r.stream)
    r.driver.event_record(freed, r.stream)
    r.driver.stream_wait_event(other, freed)
    assert r.device(SIZE, other) == first
    r.driver.context_synchronize()
    assert not r.driver.violations


def test_an_event_before_the_free_does_not() -> None:
    r = rig()
    other, used = r.driver.stream_create(), r.driver.event_create()
    first = r.device(SIZE)
    r.driver.event_record(used, r.stream)
    r.driver.mem_free_async(first, r.stream)
    r.driver.stream_wait_event(other, used)
    assert r.device(SIZE, other) != first


def test_whoever_allocates_after_the_free_has_run_reuses_it() -> None:
    for seed in range(4):
        r = rig(seed=seed)
        other = r.driver.stream_create()
        first = r.device(SIZE)
        r.driver.mem_free_async(first, r.stream)
        while not r.driver.stream_ready(r.stream):
            pass
        second = r.device(SIZE, other)
        assert second == first
        r.driver.memset8(second, 1, SIZE, other)
        r.driver.context_synchronize()
        assert not r.driver.violations


def test_a_block_is_not_wasted_on_a_much_smaller_allocation() -> None:
    r = rig()
    first = r.device(100 * SIZE)
    r.driver.mem_free_async(first, r.stream)
    assert r.device(SIZE) != first


def test_a_pool_keeps_to_its_limit_and_gives_up_what_does_not_fit() -> None:
    r = rig()
    d, s = r.driver, r.stream
    pool = d.pool_create(0, max_bytes=4 * CAPACITY)
    held = [d.mem_alloc_async(SIZE, pool, s) for _ in range(4)]
    assert code_of(lambda: d.mem_alloc_async(1, pool, s)) == Result.OUT_OF_MEMORY
    for address in held[1:]:
        d.mem_free_async(address, s)
    assert code_of(lambda: d.mem_alloc_async(3 * CAPACITY, pool, s)) == Result.OUT_OF_MEMORY
    d.stream_synchronize(s)
    assert d.mem_alloc_async(3 * CAPACITY, pool, s) not in held
    assert d.pool_use(pool) == (4 * CAPACITY, 4 * CAPACITY)


def test_trimming_gives_back_what_is_idle() -> None:
    r = rig()
    free = r.driver.memory_info().free
    first, second = r.device(SIZE), r.device(SIZE)
    r.driver.mem_free_async(first, r.stream)
    r.driver.pool_trim(r.pool)
    assert r.driver.pool_use(r.pool) == (CAPACITY, 2 * CAPACITY), "the free has not run"
    r.driver.stream_synchronize(r.stream)
    r.driver.pool_trim(r.pool, CAPACITY)
    assert r.driver.pool_use(r.pool) == (CAPACITY, CAPACITY)
    r.driver.mem_free_async(second, r.stream)
    r.driver.stream_synchronize(r.stream)
    r.driver.pool_trim(r.pool)
    assert r.driver.pool_use(r.pool) == (0, 0)
    assert r.driver.memory_info().free == free


def test_a_synchronisation_gives_back_what_exceeds_the_threshold() -> None:
    r = rig()
    pool = r.driver.pool_create(0, release_threshold=CAPACITY)
    for address in [r.driver.mem_alloc_async(SIZE, pool, r.stream) for _ in range(3)]:
        r.driver.mem_free_async(address, r.stream)
    assert r.driver.pool_use(pool) == (0, 3 * CAPACITY)
    r.driver.stream_synchronize(r.stream)
    assert r.driver.pool_use(pool) == (0, CAPACITY)


def test_a_destroyed_pool_lets_go_of_its_memory_as_it_is_freed() -> None:
    r = rig()
    d = r.driver
    free, pool = d.memory_info().free, d.pool_create(0)
    kept, dropped = (d.mem_alloc_async(SIZE, pool, r.stream) for _ in range(2))
    d.mem_free_async(dropped, r.stream)
    d.stream_synchronize(r.stream)
    d.pool_destroy(pool)
    assert d.memory_info().free == free - CAPACITY
    assert code_of(lambda: d.mem_alloc_async(1, pool, r.stream)) == Result.INVALID_VALUE
    d.mem_free_async(kept, r.stream)
    d.stream_synchronize(r.stream)
    assert d.memory_info().free == free


def test_a_device_has_so_much_memory_and_no_more() -> None:
    r = rig(preset=TINY)
    total = r.driver.memory_info().total
    assert total == r.driver.device_memory(0) == TINY.memory
    assert code_of(lambda: r.device(total + 1)) == Result.OUT_OF_MEMORY
    assert code_of(lambda: r.driver.mem_alloc(total + 1)) == Result.OUT_OF_MEMORY
    first = r.device(total)
    assert code_of(lambda: r.driver.mem_alloc(1)) == Result.OUT_OF_MEMORY
    r.driver.mem_free_async(first, r.stream)
    r.driver.stream_synchronize(r.stream)
    assert r.device(total // 4), "idle blocks make room"


def test_plain_allocations() -> None:
    r = rig()
    d = r.driver
    memory = d.mem_alloc(SIZE)
    d.memset8(memory, 1, SIZE, r.stream)
    assert r.download(memory, SIZE) == b"\x01" * SIZE
    assert d.pointer_facts(memory + 5) == (memory, SIZE, 0, False)
    d.mem_free(memory)
    assert code_of(lambda: d.mem_free(memory)) == Result.INVALID_VALUE
    assert d.live()["device_memory"] == 0


def test_either_free_takes_either_allocation() -> None:
    r = rig()
    r.driver.mem_free(r.device(SIZE))
    r.driver.mem_free_async(r.driver.mem_alloc(SIZE), r.stream)
    r.driver.context_synchronize()
    assert r.driver.pool_use(r.pool).used == 0
    assert r.driver.live()["device_memory"] == 0
