"""Memory that goes to CuPy and PyTorch and comes from them, where they are installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from gpu_runs.check.arrays import update
from gpu_runs.check.judging import Array, same
from gpu_runs.context import Context
from gpu_runs.findings import Finding
from gpu_runs.workbench import backend_with, session_on
from vyre import Session
from vyre.adapters.cuda.runtime.device import DEFAULT_OPTIONS
from vyre.testing.outcomes import Outcome, Verdict


class Library(NamedTuple):
    """``take`` makes an array of the library of ours, without a copy; ``make`` one of a host array, on the device;
    ``double`` doubles the elements of one in place and waits; ``content`` copies one to the host."""

    take: Callable[[Any], Any]
    make: Callable[[Array], Any]
    double: Callable[[Any], None]
    content: Callable[[Any], Array]


def _cupy() -> Library:
    cupy = import_module("cupy")

    def double(array: Any) -> None:
        array *= 2
        cupy.cuda.get_current_stream().synchronize()

    return Library(cupy.asarray, cupy.asarray, double, cupy.asnumpy)


def _torch() -> Library:
    torch = import_module("torch")

    def double(array: Any) -> None:
        array.mul_(2)
        torch.cuda.synchronize()

    return Library(
        torch.from_dlpack,
        lambda data: torch.from_numpy(data.copy()).to("cuda"),
        double,
        lambda array: array.cpu().numpy(),
    )


LIBRARIES: dict[str, Callable[[], Library]] = {"CuPy": _cupy, "PyTorch": _torch}


def installed() -> Iterator[tuple[str, Library]]:
    """Those that can be imported, by name."""
    for name, load in LIBRARIES.items():
        with suppress(ImportError):
            yield name, load()


def libraries(context: Context) -> Iterator[Finding]:
    if context.emulated:
        yield Outcome("libraries", Verdict.SKIPPED, "they would use addresses of an emulated device")
        return
    found = dict(installed())
    yield from (Outcome(name, Verdict.SKIPPED, "cannot be imported") for name in LIBRARIES if name not in found)
    for name, library in found.items():
        with session_on(backend_with(context.backend, DEFAULT_OPTIONS)) as session:
            yield from exchanged(session, name, library, 1 << 20)


def exchanged(session: Session, name: str, library: Library, count: int) -> Iterator[Finding]:
    x = np.arange(count, dtype=np.float32)
    with session.resident(x) as ours, session.resident(np.ones_like(x)) as y:
        theirs = library.take(ours)
        yield same(f"{name} reads ours", library.content(theirs), x)
        library.double(theirs)
        yield same(f"{name} writes ours", ours.download(), 2 * x)
        session.dispatch(update(), {"a": 1.0, "x": y, "y": ours})
        yield same(f"{name} sees a launch", library.content(theirs), 2 * x + 1)
        del theirs
        made = library.make(x)
        with session.adopt(made) as held:
            session.dispatch(update(), {"a": 3.0, "x": held, "y": y})
            yield same(f"a launch reads an array of {name}", y.download(), 3 * x + 1)
            session.dispatch(update(), {"a": 1.0, "x": y, "y": held})
        yield same(f"a launch writes an array of {name}", library.content(made), 4 * x + 1)
