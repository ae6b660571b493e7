"""Arrays that share a budget of device memory: what stays, what moves to the host, and why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pytest

import vyre
from vyre import ProgramBuilder, u32
from vyre.domain.errors import DeviceOutOfMemory, InvalidConfig, InvalidInput, InvalidResource
from vyre.policies.caching.cache_eviction import select_retention_set

N: Final = 256
NBYTES: Final = 4 * N


def doubling() -> vyre.Program:
    with ProgramBuilder("doubling", workgroup=64) as p:
        y = p.inout("y", u32)
        with p.if_(p.global_id() < y.length):
            y[p.global_id()] = y[p.global_id()] * 2 + 1
    return p.build()


DOUBLING: Final = doubling()


@pytest.fixture(params=["reference", "cpu", "cuda-machine"])
def session(request: pytest.FixtureRequest) -> Iterator[vyre.Session]:
    with vyre.open(request.param, cache=False) as opened:
        yield opened


def words(value: int) -> Any:
    return np.full((4, N // 4), value, np.uint32)


def test_what_leaves_comes_back_with_its_content(session: vyre.Session) -> None:
    right = {name: words(k) for k, name in enumerate("abcd")}
    with session.resident_cache(2 * NBYTES) as cache:
        for name, data in right.items():
            cache.add(name, data)
        assert cache.resident_bytes == 0
        for name in "abcdacbdabcd":
            with cache.use(name) as array:
                session.dispatch(DOUBLING, {"y": array})
            right[name] = right[name] * np.uint32(2) + np.uint32(1)
            assert cache.resident_bytes <= 2 * NBYTES
        for name, expected in right.items():
            found = cache.remove(name)
            assert np.array_equal(found, expected)
            assert found.shape == expected.shape
        assert cache.resident_bytes == 0


def test_the_least_used_array_leaves_and_the_reason_is_told(session: vyre.Session) -> None:
    with session.resident_cache(3 * NBYTES) as cache:
        for k, name in enumerate(("often", "once", "twice", "new")):
            cache.add(name, words(k), constant=name == "twice")
        for name in ("often", "once", "twice", "often", "often", "twice"):
            with cache.use(name):
                pass
        assert (cache.evictions, cache.uploaded_bytes) == ((), 3 * NBYTES)
        with cache.use("new"):
            pass
        (left,) = cache.evictions
        assert (left.name, left.nbytes, left.copied_bytes) == ("once", NBYTES, NBYTES)
        assert left.why.startswith("used 1 time(s), last 5 use(s) ago")
        assert f"{NBYTES} bytes of `new`" in left.why
        with cache.use("once"), cache.use("often"):
            pass
        assert [each.name for each in cache.evictions] == ["once", "new"]
        text = cache.explain()
        assert f"{3 * NBYTES} of {3 * NBYTES} bytes on the device: often, once, twice; 25 %" in text
        assert f"{5 * NBYTES} bytes were uploaded" in text and left.why in text


def test_a_constant_array_leaves_without_a_copy() -> None:
    with vyre.open("cuda-machine", cache=False) as session, session.resident_cache(NBYTES) as cache:
        for name in ("one", "other"):
            cache.add(name, words(3), constant=name == "one")
        read = []
        for name in ("one", "other", "one"):
            before = session.metrics()["downloaded_bytes"]
            with cache.use(name):
                pass
            read.append(session.metrics()["downloaded_bytes"] - before)
        assert read == [0, 0, NBYTES]  # what is written by nobody need not be read back
        assert [(each.name, each.copied_bytes) for each in cache.evictions] == [("one", 0), ("other", NBYTES)]


def test_arrays_in_use_stay(session: vyre.Session) -> None:
    with session.resident_cache(2 * NBYTES) as cache:
        for name in "abc":
            cache.add(name, words(1))
        with cache.use("a") as a, cache.use("b") as b:
            with pytest.raises(DeviceOutOfMemory) as found, cache.use("c"):
                pass
            assert (found.value.requested, found.value.available) == (NBYTES, 0)
            assert not a.closed
            assert not b.closed
            with pytest.raises(InvalidResource, match="in use"):
                cache.remove("a")
            with cache.use("a") as again:
                assert again is a
        with cache.use("c"):
            pass
        assert len(cache.evictions) == 1


def test_truth_values_take_their_bytes_on_the_device(session: vyre.Session) -> None:
    truths = np.arange(N) % 3 == 0
    with session.resident_cache(NBYTES) as cache:
        cache.add("truths", truths)
        cache.add("other", words(1))
        with cache.use("truths") as array:
            assert array.nbytes == cache.resident_bytes == NBYTES
        with cache.use("other"):
            pass
        assert np.array_equal(cache.remove("truths"), truths)
        with pytest.raises(InvalidInput, match=f"takes {NBYTES + 4} bytes"):
            cache.add("more", np.zeros(N + 1, np.bool_))


def test_an_event_tells_of_each_eviction() -> None:
    class Heard:
        def __init__(self) -> None:
            self.events: list[tuple[str, dict[str, object]]] = []

        def count(self, name: str, value: int = 1, /, **labels: str) -> None: ...

        def observe(self, name: str, seconds: float, /, **labels: str) -> None: ...

        def event(self, name: str, /, *, level: str = "info", **fields: object) -> None:
            self.events.append((name, fields))

    heard = Heard()
    with vyre.open("reference", cache=False, telemetry=heard) as session, session.resident_cache(NBYTES) as cache:
        for name in "ab":
            cache.add(name, words(1))
            with cache.use(name):
                pass
    (fields,) = [fields for name, fields in heard.events if name == "vyre.resident.evicted"]
    assert (fields["name"], fields["nbytes"]) == ("a", NBYTES)


def test_the_decision_can_be_taken_again() -> None:
    journal = vyre.DecisionJournal()
    with vyre.open("reference", cache=False, journal=journal) as session, session.resident_cache(NBYTES) as cache:
        for name in "ab":
            cache.add(name, words(1))
            with cache.use(name):
                pass
    (found,) = [each for each in journal.decisions if each.policy is select_retention_set]
    assert select_retention_set(*found.arguments) == found.verdict == (False,)  # type: ignore[arg-type]


def test_what_was_given_stays_open_for_its_block_alone(session: vyre.Session) -> None:
    with session.resident_cache(NBYTES) as cache:
        cache.add("a", words(1))
        with cache.use("a") as array:
            pass
        cache.remove("a")
        with pytest.raises(InvalidResource):
            session.dispatch(DOUBLING, {"y": array})


@pytest.mark.parametrize("budget", [0, -1, 1 << 64, True, 1.5, None])
def test_a_budget_is_a_number_of_bytes(budget: Any) -> None:
    with vyre.open("reference") as session, pytest.raises(InvalidConfig, match="budget"):
        session.resident_cache(budget)


def test_wrong_uses_are_refused() -> None:
    with vyre.open("reference") as session:
        with session.resident_cache(NBYTES) as cache:
            cache.add("a", words(1))
            with pytest.raises(InvalidInput, match="is in the cache"):
                cache.add("a", words(1))
            with pytest.raises(InvalidInput, match="has no element type"):
                cache.add("b", b"bytes")
            with pytest.raises(InvalidInput, match="no array 'c'"), cache.use("c"):
                pass
            assert "1 arrays" in repr(cache)
        with pytest.raises(InvalidResource, match="used after close"):
            cache.add("b", words(1))
