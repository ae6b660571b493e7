"""Pages for machine code: many are mapped at once, and each is used by one piece of code only."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import pytest

from vyre.adapters.cpu.native import memory
from vyre.adapters.cpu.native.memory import MAPPABLE, PAGE_BYTES, RESERVED_BYTES, Pages, Protection
from vyre.domain.errors import DeviceOutOfMemory

pytestmark = pytest.mark.skipif(not MAPPABLE, reason="this system maps memory in another way")


class _Calls(NamedTuple):
    mmap: Callable[..., object]
    mprotect: Callable[..., object]
    munmap: Callable[..., object]


def content(pages: Pages) -> bytes:
    return ctypes.string_at(pages.address, pages.nbytes)


def test_pages_are_fresh_and_do_not_overlap() -> None:
    taken = []
    for number in range(2 * RESERVED_BYTES // (3 * PAGE_BYTES)):  # more than one reserve has
        pages = Pages(2 * PAGE_BYTES + 1)
        assert pages.nbytes == 3 * PAGE_BYTES and content(pages) == bytes(pages.nbytes)
        pages.write(0, bytes([1 + number % 255]) * pages.nbytes)
        pages.protect(0, PAGE_BYTES, Protection.EXECUTE)
        taken.append(pages)
    assert all(set(content(pages)) == {1 + number % 255} for number, pages in enumerate(taken))
    spans = sorted((pages.address, pages.address + pages.nbytes) for pages in taken)
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    for pages in taken:
        pages.close()


def test_one_reserve_serves_many(monkeypatch: pytest.MonkeyPatch) -> None:
    mapped: list[int] = []
    calls = memory._calls()

    def mmap(address: object, nbytes: int, *rest: object) -> object:
        mapped.append(nbytes)
        return calls.mmap(address, nbytes, *rest)

    monkeypatch.setattr(memory, "_RESERVE", memory._Reserve())
    monkeypatch.setattr(memory, "_calls", lambda: _Calls(mmap, calls.mprotect, calls.munmap))
    held = [Pages(PAGE_BYTES) for _ in range(RESERVED_BYTES // PAGE_BYTES)]
    assert mapped == [RESERVED_BYTES]
    held.append(Pages(1))
    assert mapped == [RESERVED_BYTES, RESERVED_BYTES]
    held.append(Pages(2 * RESERVED_BYTES))
    assert mapped == [RESERVED_BYTES, RESERVED_BYTES, 2 * RESERVED_BYTES]
    held[0].close()
    assert content(held[1]) == bytes(PAGE_BYTES), "what others use stays"


def test_no_memory_is_an_error_and_leaves_the_reserve_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = memory._calls()
    monkeypatch.setattr(memory, "_RESERVE", memory._Reserve())
    first = Pages(PAGE_BYTES)
    monkeypatch.setattr(memory, "_calls", lambda: _Calls(lambda *_: None, calls.mprotect, calls.munmap))
    with pytest.raises(DeviceOutOfMemory):
        Pages(RESERVED_BYTES)
    assert Pages(PAGE_BYTES).address == first.address + PAGE_BYTES
