"""Memory on the device as arrays: parts of it, updates in place, and memory that other libraries show or lend.

What only hardware shows: that the driver knows the addresses that it handed out, and copies between any two bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import numpy as np

from gpu_runs.check.judging import Array, counted, judged, refused, same, spent
from gpu_runs.context import Context
from gpu_runs.findings import Finding
from gpu_runs.workbench import backend_with, has_driver, session_on
from vyre import InvalidResource, Program, ProgramBuilder, ResidentArray, Session, f32
from vyre.adapters.cuda.runtime.device import CudaOptions
from vyre.domain.errors import InvalidInput
from vyre.testing.outcomes import Outcome, Verdict

_NOWHERE: Final = 0xDEAD_0000
_NO_COPIES: Final = {"uploaded_bytes": 0, "downloaded_bytes": 0, "resident_bytes": 0}


class Exporter:
    """What an array of another library looks like: the address, the shape and the type of its elements."""

    def __init__(self, array: ResidentArray, **interface: Any) -> None:
        self.__cuda_array_interface__ = array.__cuda_array_interface__ | interface


class Lender:
    """The same by DLPack."""

    def __init__(self, array: ResidentArray) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


def update() -> Program:
    """``y = a * x + y``."""
    with ProgramBuilder("update", workgroup=128) as p:
        a, x, y = p.param("a", f32), p.input("x", f32), p.inout("y", f32)
        i = p.global_id()
        with p.if_(i < y.length):
            y[i] = a * x[i] + y[i]
    return p.build()


def arrays(context: Context) -> Iterator[Finding]:
    if not has_driver(context.backend):
        yield Outcome("arrays", Verdict.SKIPPED, f"`{context.backend}` has no CUDA driver")
        return
    n = 1000 if context.emulated else 1 << 20
    backend = backend_with(context.backend, CudaOptions(graph_after=None), exports=True)
    with session_on(backend) as session:
        yield from _parts(session, np.arange(n, dtype=np.float32))
        yield from _in_place(session, np.arange(n, dtype=np.float32))
        yield from _of_others(session, np.arange(n, dtype=np.float32))


def _parts(session: Session, x: Array) -> Iterator[Finding]:
    n = x.size
    with session.resident(x) as r, session.resident(np.zeros_like(x)) as other:
        found: list[Array] = []
        work = spent(session, lambda: found.append(r[3 : n - 5].download()))
        yield same("a range alone", found[0], x[3 : n - 5])
        yield counted("a range is one copy of its bytes", work, downloaded_bytes=4 * (n - 8), downloads=1)
        work = spent(session, lambda: r[1:4].upload(np.full(3, 7, np.float32)))
        yield counted("an upload to a part", work, uploaded_bytes=12, uploads=1)
        wanted = x.copy()
        wanted[1:4] = 7
        half = n // 2
        work = spent(session, lambda: session.dispatch(update(), {"a": 2.0, "x": r[:half], "y": r[half : 2 * half]}))
        wanted[half : 2 * half] += 2 * wanted[:half]
        yield same("a launch on two parts of one array", r.download(), wanted)
        yield counted("a launch on two parts", work, kernel_launches=1, downloaded_bytes=0)
        session.dispatch(update(), {"a": 1.0, "x": other[1:], "y": r[1:]})  # 4 bytes away from a multiple of 16
        yield same("a launch on misaligned parts", r.download(), wanted)
        yield refused(
            "parts that overlap and are written",
            lambda: session.dispatch(update(), {"a": 1.0, "x": r[:half], "y": r[half - 1 : 2 * half - 1]}),
            InvalidResource,
        )
        with session.resident(4 * n) as raw:
            yield refused(
                "a part between two elements",
                lambda: session.dispatch(update(), {"a": 1.0, "x": raw.view(2, 8), "y": other[:2]}),
                InvalidInput,
                InvalidResource,
            )


def _in_place(session: Session, x: Array) -> Iterator[Finding]:
    memory = np.ones(x.size + 1, np.float32)
    y = memory[1:]
    wanted, kept = y.copy(), list[Array]()
    inputs: dict[str, Any] = {"a": 2.0, "x": x, "y": y}

    def run() -> None:
        kept.append(session.dispatch(update(), inputs, out={"y": y})["y"])

    for repeat in range(3):
        work = spent(session, run)
        wanted = np.float32(2) * x + wanted
        yield same(f"in place, time {repeat}", y, wanted)
    yield judged("the result is the array", kept[-1] is y and memory[0] == 1)
    yield counted(
        "an update in place",
        work,
        kernel_launches=1,
        downloaded_bytes=y.nbytes,
        downloads=1,
        transient_allocation_bytes_requested=0,
    )
    yield refused(
        "an output that overlaps its input in part",
        lambda: session.dispatch(update(), inputs, out={"y": memory[:-1]}),
        InvalidResource,
    )
    yield same("what was refused", y, wanted)


def _of_others(session: Session, x: Array) -> Iterator[Finding]:
    """Ours stands for the array of another library: it is shown by an address, and handed back."""
    with session.resident(x) as theirs, session.resident(np.ones_like(x)) as y:
        wanted = np.ones_like(x)
        for name, shown in (("__cuda_array_interface__", Exporter(theirs)), ("DLPack", Lender(theirs))):
            with session.adopt(shown) as held:
                run = partial(session.dispatch, update(), {"a": 1.0, "x": held, "y": y})
                run()
                work = spent(session, run)
                wanted = wanted + 2 * x
            yield same(f"read through {name}", y.download(), wanted)
            yield counted(f"nothing is copied for {name}", work, kernel_launches=1, **_NO_COPIES)
        with session.adopt(Exporter(theirs)) as held:
            session.dispatch(update(), {"a": 1.0, "x": y, "y": held})
        yield same("written through an adopted array", theirs.download(), x + wanted)
        yield refused(
            "a pointer that the driver does not know",
            lambda: session.adopt(Exporter(theirs, data=(_NOWHERE, False))),
            InvalidResource,
        )
        address = theirs.__cuda_array_interface__["data"][0]
        with session.adopt(Exporter(theirs, data=(address, True))) as frozen:
            yield refused(
                "a read-only array that is written",
                lambda: session.dispatch(update(), {"a": 1.0, "x": y, "y": frozen}),
                InvalidResource,
                InvalidInput,
            )
