"""Dicts that are read while finalizers and other threads change them."""

from __future__ import annotations

import threading
import weakref

from support.collecting import Cycle, eager_collector
from vyre.domain.shared_dicts import entries_of


def test_finalizers_may_remove_entries() -> None:
    shared = {number: str(number) for number in range(1000)}
    with eager_collector():
        for _ in range(20):
            weakref.finalize(Cycle(), shared.popitem)
            found = entries_of(shared)
            assert all(value == str(key) for key, value in found)
            assert len(shared) <= len(found) <= 1000
    assert len(shared) < 1000


def test_threads_may_add_and_remove_entries() -> None:
    shared = {number: number for number in range(500)}
    ended = threading.Event()

    def change() -> None:
        number = 500
        while not ended.is_set():
            shared[number] = number
            shared.pop(number - 250, None)
            number += 1

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(500):
            assert all(key == value for key, value in entries_of(shared))
    finally:
        ended.set()
        thread.join()


def test_nothing_is_left_out_of_a_dict_that_nobody_changes() -> None:
    assert entries_of({"a": None, "b": 1}) == [("a", None), ("b", 1)]
