"""Arrays on the ``cpu`` backend: updates in place against the forms that copy, memory lent and borrowed, and many
small results.

Both sides run in turn on one thread, and processor time counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

import vyre
from benchmarks.cpu.launches import opened
from benchmarks.harness import Metric, NotMeasured, Row, Samples, compare
from vyre import ProgramBuilder, Session, VyreError, f32

_ELEMENTS: Final = 10_000_000
_PARTS: Final = 1 << 16
_RESULTS: Final = 10_000
_STATE: Final = "compiled and warm, one thread, processor time"


def opened_or_not() -> Session:
    """Returns a session on ``cpu``; raises ``NotMeasured`` where there is none."""
    try:
        return opened("cpu")
    except VyreError as error:
        raise NotMeasured(f"{type(error).__name__}: {error}") from None


def _update() -> vyre.Program:
    with ProgramBuilder("update", workgroup=256) as p:
        a, x, y = p.param("a", f32), p.input("x", f32), p.inout("y", f32)
        i = p.global_id()
        with p.if_(i < y.length):
            y[i] = a * x[i] + y[i]
    return p.build()


def _in_place(rounds: int, *, target: bool) -> Samples:
    """``target``: the other side writes an array of the caller, which a copy fills, and not a new one."""
    x, y = np.ones(_ELEMENTS, np.float32), np.zeros(_ELEMENTS, np.float32)
    program, other = _update(), np.empty_like(y)
    inputs: dict[str, Any] = {"a": 0.5, "x": x, "y": y}
    copied = {"out": {"y": other}} if target else {}
    with opened_or_not() as session:
        session.dispatch(program, inputs, **copied)
        before = y.copy()
        session.dispatch(program, inputs, out={"y": y})
        if not np.array_equal(y, before + 0.5):
            raise AssertionError("an update in place computes something else")
        ours: Callable[[], object] = partial(session.dispatch, program, inputs, out={"y": y})
        return compare(ours, partial(session.dispatch, program, inputs, **copied), rounds, time.process_time)


def _lent(rounds: int) -> Samples:
    """NumPy takes resident memory, against NumPy taking an array of its own."""
    array = np.ones(_PARTS, np.float32)
    with opened_or_not() as session, session.resident(array) as held:
        if not np.array_equal(np.from_dlpack(held), array):
            raise AssertionError("the memory shows something else")
        return compare(partial(np.from_dlpack, held), partial(np.from_dlpack, array), rounds, time.process_time)


def _borrowed(rounds: int) -> Samples:
    """An array becomes resident memory and is given back, against a copy that is made and freed."""
    array = np.ones(_PARTS, np.float32)
    with opened_or_not() as session:

        def adopted() -> None:
            session.adopt(array).close()

        def copied() -> None:
            session.resident(array).close()

        with session.adopt(array) as held:
            held[:1].upload(np.zeros(1, np.float32))
        if array[0] != 0:
            raise AssertionError("adopted memory is a copy")
        return compare(adopted, copied, rounds, time.process_time)


def _part(rounds: int) -> Samples:
    """A part of resident memory, against a view of an array in NumPy."""
    array = np.ones(_PARTS, np.float32)
    with opened_or_not() as session, session.resident(array) as held:
        return compare(lambda: held[16:4096], lambda: array[16:4096], rounds, time.process_time)


def _results(session: Session) -> tuple[vyre.ResidentArray, list[vyre.ResidentArray]]:
    """10 000 results of 64 bytes, with gaps of 64 bytes between them."""
    held = session.resident(np.arange(_RESULTS * 32, dtype=np.uint32).reshape(2 * _RESULTS, 16))
    return held, [held[2 * i : 2 * i + 1] for i in range(_RESULTS)]


def _each(arrays: list[vyre.ResidentArray]) -> list[Any]:
    return [array.download() for array in arrays]


def _packed(rounds: int, *, bound: bool) -> Samples:
    """Many results in one download, against a download for each."""
    with opened_or_not() as session:
        held, arrays = _results(session)
        read = session.bind_download(arrays) if bound else partial(session.download, arrays)
        if not np.array_equal(np.concatenate(read()), held.download()[::2]):
            raise AssertionError("packed results are others")
        samples = compare(read, partial(_each, arrays), rounds, time.process_time)
        held.close()
        return samples


def _slots(rounds: int, *, equal: bool) -> Samples:
    """Slots whose lengths only the device knows, against a download for each, whose lengths are known."""
    with opened_or_not() as session:
        held, arrays = _results(session)
        found = np.full(_RESULTS, 16, np.uint32) if equal else (np.arange(_RESULTS) % 17).astype(np.uint32)
        with session.resident(found) as lengths:
            slots = held.view()
            ours = partial(session.download_slots, slots, lengths, capacity=32)
            for got, array, length in zip(ours(), arrays, found, strict=True):
                if not np.array_equal(got, array.download()[0, :length]):
                    raise AssertionError("packed slots are others")
            samples = compare(ours, partial(_each, arrays), rounds, time.process_time)
        held.close()
        return samples


ROWS: Final = (
    Row("results-1e4/bound", Metric.SPEEDUP, "x downloads", 10.0, 30.0, partial(_packed, bound=True), _STATE),
    Row("results-1e4/list", Metric.SPEEDUP, "x downloads", None, None, partial(_packed, bound=False), _STATE),
    Row("slots-1e4/equal", Metric.SPEEDUP, "x downloads", 10.0, 15.0, partial(_slots, equal=True), _STATE),
    Row("slots-1e4/lengths", Metric.SPEEDUP, "x downloads", 5.0, 10.0, partial(_slots, equal=False), _STATE),
    Row("in-place-1e7/new-array", Metric.RATIO, "x copying", 0.7, 0.5, partial(_in_place, target=False), _STATE),
    Row("in-place-1e7/other-array", Metric.RATIO, "x copying", 0.7, 0.5, partial(_in_place, target=True), _STATE),
    Row("dlpack-export", Metric.COST, "us", 5.0, 2.0, _lent, _STATE, scale=1e6),
    Row("adopt-and-close", Metric.COST, "us", 5.0, 3.0, _borrowed, _STATE, scale=1e6),
    Row("part", Metric.COST, "us", None, None, _part, _STATE, scale=1e6),
)
