"""Arrays on the ``cpu`` backend: arrays of the caller against new ones, updates in place against the forms that copy,
memory lent and borrowed, and many small results.

Both sides run in turn on one thread, and processor time counts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import cycle
from typing import Any, Final

import numpy as np

import vyre
from benchmarks.harness import Metric, Row, Samples, compare
from benchmarks.site import CPU_PROCESSOR, Site
from vyre import ProgramBuilder, Session, f32

_ELEMENTS: Final = 10_000_000
_FEW: Final = 1000
_PARTS: Final = 1 << 16
_RESULTS: Final = 10_000
_STATE: Final = "compiled and warm, one thread, processor time"


def _update() -> vyre.Program:
    with ProgramBuilder("update", workgroup=256) as p:
        a, x, y = p.param("a", f32), p.input("x", f32), p.inout("y", f32)
        i = p.global_id()
        with p.if_(i < y.length):
            y[i] = a * x[i] + y[i]
    return p.build()


def measure_in_place(site: Site, rounds: int, *, target: bool, elements: int = _ELEMENTS) -> Samples:
    """``target``: the other side writes an array of the caller, which a copy fills, and not a new one."""
    x, y = np.ones(elements, np.float32), np.zeros(elements, np.float32)
    program, other = _update(), np.empty_like(y)
    inputs: dict[str, Any] = {"a": 0.5, "x": x, "y": y}
    copied: dict[str, Any] = {"out": {"y": other}} if target else {}
    with site.open() as session:
        session.dispatch(program, inputs, **copied)
        before = y.copy()
        session.dispatch(program, inputs, out={"y": y})
        if not np.array_equal(y, before + 0.5):
            raise AssertionError("an update in place computes something else")
        ours: Callable[[], object] = partial(session.dispatch, program, inputs, out={"y": y})
        return compare(ours, partial(session.dispatch, program, inputs, **copied), rounds, site.clock)


def measure_out(site: Site, rounds: int, *, elements: int) -> Samples:
    """A dispatch that writes an array of the caller, against one that makes a new array."""
    x, y = np.ones(elements, np.float32), np.empty(elements, np.float32)
    with ProgramBuilder("scale", workgroup=256) as p:
        a, source, scaled = p.param("a", f32), p.input("x", f32), p.output("y", f32, like="x")
        i = p.global_id()
        with p.if_(i < scaled.length):
            scaled[i] = a * source[i]
    program = p.build()
    inputs: dict[str, Any] = {"a": 0.5, "x": x}
    with site.open() as session:
        ours = partial(session.dispatch, program, inputs, out={"y": y})
        new = partial(session.dispatch, program, inputs)
        if ours()["y"] is not y or not np.array_equal(y, new()["y"]):
            raise AssertionError("an array of the caller gets something else")
        return compare(ours, new, rounds, site.clock)


def measure_resident(site: Site, rounds: int, *, bound: bool = False, numbers: int = 1) -> Samples:
    """A repeated dispatch on resident memory, against one that updates an array of the caller in place.

    ``bound``: our side binds a launch and closes it.  ``numbers``: so many values of the parameter take turns.
    """
    x, y = np.ones(_FEW, np.float32), np.zeros(_FEW, np.float32)
    program, values = _update(), cycle([0.5 * k for k in range(1, numbers + 1)])
    with site.open() as session, session.resident(x) as held, session.resident(y) as updated:

        def resident() -> None:
            session.dispatch(program, {"a": next(values), "x": held, "y": updated})

        def bind() -> None:
            session.bind_resident(program, {"a": next(values), "x": held, "y": updated}).close()

        def host() -> None:
            session.dispatch(program, {"a": next(values), "x": x, "y": y}, out={"y": y})

        for _ in range(2 * numbers):
            resident()
            host()
        if not np.array_equal(updated.download(), y):
            raise AssertionError("a dispatch on resident memory computes something else")
        return compare(bind if bound else resident, host, rounds, site.clock)


def _lent(site: Site, rounds: int) -> Samples:
    """NumPy takes resident memory, against NumPy taking an array of its own."""
    array = np.ones(_PARTS, np.float32)
    with site.open() as session, session.resident(array) as held:
        if not np.array_equal(np.from_dlpack(held), array):
            raise AssertionError("the memory shows something else")
        return compare(partial(np.from_dlpack, held), partial(np.from_dlpack, array), rounds, site.clock)


def _borrowed(site: Site, rounds: int) -> Samples:
    """An array becomes resident memory and is given back, against a copy that is made and freed."""
    array = np.ones(_PARTS, np.float32)
    with site.open() as session:

        def adopted() -> None:
            session.adopt(array).close()

        def copied() -> None:
            session.resident(array).close()

        with session.adopt(array) as held:
            held[:1].upload(np.zeros(1, np.float32))
        if array[0] != 0:
            raise AssertionError("adopted memory is a copy")
        return compare(adopted, copied, rounds, site.clock)


def measure_part(site: Site, rounds: int) -> Samples:
    """A part of resident memory, against a view of an array in NumPy."""
    array = np.ones(_PARTS, np.float32)
    with site.open() as session, session.resident(array) as held:
        return compare(lambda: held[16:4096], lambda: array[16:4096], rounds, site.clock)


def _results(session: Session, count: int) -> tuple[vyre.ResidentArray, list[vyre.ResidentArray]]:
    """Results of 64 bytes, with gaps of 64 bytes between them."""
    held = session.resident(np.arange(count * 32, dtype=np.uint32).reshape(2 * count, 16))
    return held, [held[2 * i : 2 * i + 1] for i in range(count)]


def _each(arrays: list[vyre.ResidentArray]) -> list[Any]:
    return [array.download() for array in arrays]


def measure_packed(site: Site, rounds: int, *, bound: bool, results: int = _RESULTS) -> Samples:
    """Many results in one download, against a download for each."""
    with site.open() as session:
        held, arrays = _results(session, results)
        read = session.bind_download(arrays) if bound else partial(session.download, arrays)
        if not np.array_equal(np.concatenate(read()), held.download()[::2]):
            raise AssertionError("packed results are others")
        samples = compare(read, partial(_each, arrays), rounds, site.clock)
        held.close()
        return samples


def measure_slots(site: Site, rounds: int, *, equal: bool, results: int = _RESULTS) -> Samples:
    """Slots whose lengths only the device knows, against a download for each, whose lengths are known."""
    with site.open() as session:
        held, arrays = _results(session, results)
        found = np.full(results, 16, np.uint32) if equal else (np.arange(results) % 17).astype(np.uint32)
        with session.resident(found) as lengths:
            slots = held.view()
            ours = partial(session.download_slots, slots, lengths, capacity=32)
            for got, array, length in zip(ours(), arrays, found, strict=True):
                if not np.array_equal(got, array.download()[0, :length]):
                    raise AssertionError("packed slots are others")
            samples = compare(ours, partial(_each, arrays), rounds, site.clock)
        held.close()
        return samples


ROWS: Final = (
    Row(
        "results-1e4/bound",
        Metric.SPEEDUP,
        "x downloads",
        10.0,
        30.0,
        partial(measure_packed, CPU_PROCESSOR, bound=True),
        _STATE,
    ),
    Row(
        "results-1e4/list",
        Metric.SPEEDUP,
        "x downloads",
        None,
        None,
        partial(measure_packed, CPU_PROCESSOR, bound=False),
        _STATE,
    ),
    Row(
        "slots-1e4/equal",
        Metric.SPEEDUP,
        "x downloads",
        10.0,
        15.0,
        partial(measure_slots, CPU_PROCESSOR, equal=True),
        _STATE,
    ),
    Row(
        "slots-1e4/lengths",
        Metric.SPEEDUP,
        "x downloads",
        5.0,
        10.0,
        partial(measure_slots, CPU_PROCESSOR, equal=False),
        _STATE,
    ),
    Row(
        "in-place-1e7/new-array",
        Metric.RATIO,
        "x copying",
        0.7,
        0.5,
        partial(measure_in_place, CPU_PROCESSOR, target=False),
        _STATE,
    ),
    Row(
        "in-place-1e7/other-array",
        Metric.RATIO,
        "x copying",
        0.7,
        0.5,
        partial(measure_in_place, CPU_PROCESSOR, target=True),
        _STATE,
    ),
    *(
        Row(
            f"out-{label}",
            Metric.RATIO,
            "x new array",
            1.15,
            1.0,
            partial(measure_out, CPU_PROCESSOR, elements=elements),
            _STATE,
        )
        for label, elements in (("1e3", 1000), ("1e5", 100_000))
    ),
    Row(
        "dispatch-1e3/resident",
        Metric.RATIO,
        "x host in place",
        1.0,
        0.8,
        partial(measure_resident, CPU_PROCESSOR),
        _STATE,
    ),
    Row(
        "dispatch-1e3/resident-numbers",
        Metric.RATIO,
        "x host in place",
        1.0,
        0.8,
        partial(measure_resident, CPU_PROCESSOR, numbers=7),
        _STATE,
    ),
    Row(
        "bind-1e3/resident",
        Metric.RATIO,
        "x host in place",
        1.0,
        0.8,
        partial(measure_resident, CPU_PROCESSOR, bound=True),
        _STATE,
    ),
    Row("dlpack-export", Metric.COST, "us", 5.0, 2.0, partial(_lent, CPU_PROCESSOR), _STATE, scale=1e6),
    Row("adopt-and-close", Metric.COST, "us", 5.0, 3.0, partial(_borrowed, CPU_PROCESSOR), _STATE, scale=1e6),
    Row("part", Metric.COST, "us", None, None, partial(measure_part, CPU_PROCESSOR), _STATE, scale=1e6),
)
