"""Host time of enqueuing one launch: ours and those of other libraries, each group in a process of its own.

Every side launches the same work on one block (``y = a * x + y`` over 256 elements, four arguments), the same number of
times, and waits for the device after each batch, outside the clock.  x holds ones and a is 1, so that y counts the
launches: a side whose count is off is a failure, not a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from gpu_runs.bench import programs, rivals
from gpu_runs.bench.timing import batches_us, spread
from gpu_runs.context import Context
from gpu_runs.findings import Fact, Finding
from gpu_runs.workbench import Workbench, has_driver
from vyre.adapters.cuda.runtime.launch import ScratchAddresses
from vyre.testing.outcomes import Outcome, Verdict

ELEMENTS: Final = programs.WORKGROUP
ARGUMENTS: Final = 4


class Batches(NamedTuple):
    """Launches between two waits (below the depth of a launch queue), and how often."""

    calls: int
    batches: int


FULL: Final = Batches(500, 60)
REHEARSAL: Final = Batches(10, 4)


def ours(context: Context) -> Iterator[Finding]:
    if not has_driver(context.backend):
        yield Outcome("prepared launch", Verdict.SKIPPED, f"`{context.backend}` has no CUDA driver")
        return
    batches = REHEARSAL if context.emulated else FULL
    program = programs.launch_probe()
    with Workbench(context.backend) as bench:
        x, y = bench.upload(np.ones(ELEMENTS, np.float32)), bench.upload(np.zeros(ELEMENTS, np.float32))
        values = {"a": np.float32(1).tobytes(), "n": np.uint32(ELEMENTS).tobytes()}
        with bench.module(program) as module:
            addresses, counts = (0, 0, x, y), (1, 1, ELEMENTS, ELEMENTS)
            launch = bench.prepare(program, module, (1, 1, 1), addresses, counts, values)
            scalars = [memoryview(values["a"]), memoryview(values["n"]), None, None]
            scratch = ScratchAddresses()

            def new_scalars() -> None:
                launch.set_values(scalars)
                launch()

            def all_rewritten() -> None:
                launch.bind(addresses, counts, scratch)
                launch.set_values(scalars)
                launch()

            sides: dict[str, Callable[[], object]] = {
                "unchanged": launch,
                "scalars rewritten": new_scalars,
                "all rewritten": all_rewritten,
            }
            done, found = 0, dict[str, Any]()
            for name, side in sides.items():
                side()
                bench.synchronize()
                found[name] = spread(batches_us(side, bench.synchronize, **batches._asdict()))
                done += 1 + batches.calls * batches.batches
            found["kernel_parameters"] = len(module.kernels[0].emitted.parameters)
        yield Fact("launch_us", {"arguments": ARGUMENTS, **found})
        yield _counted("ours", bench.download(y, ELEMENTS, np.float32), done)


def _rival(name: str, context: Context) -> Iterator[Finding]:
    if context.emulated:
        yield Outcome(name, Verdict.SKIPPED, "needs a GPU")
        return
    try:
        make = rivals.RIVALS[name]
        sides = make(ELEMENTS)
    except ImportError as error:
        yield Outcome(name, Verdict.SKIPPED, f"cannot be imported: {error}")
        return
    done, found = 0, dict[str, Any]()
    for kind, launch in sides.launches.items():
        launch()
        sides.synchronize()
        found[kind] = spread(batches_us(launch, sides.synchronize, **FULL._asdict()))
        done += 1 + FULL.calls * FULL.batches
    yield Fact("launch_us", {"arguments": ARGUMENTS, "version": sides.version, **found})
    yield _counted(name, sides.result(), done)


def _counted(name: str, y: Any, launches: int) -> Outcome:
    right = bool((np.asarray(y) == np.float32(launches)).all())
    return Outcome(name, Verdict.PASSED if right else Verdict.FAILED, "" if right else f"{y[0]}, not {launches}")


bindings: Final[Callable[[Context], Iterator[Finding]]] = partial(_rival, "cuda.bindings")
cuda_core: Final[Callable[[Context], Iterator[Finding]]] = partial(_rival, "cuda.core")
cupy: Final[Callable[[Context], Iterator[Finding]]] = partial(_rival, "CuPy")
numba: Final[Callable[[Context], Iterator[Finding]]] = partial(_rival, "numba-cuda")
triton: Final[Callable[[Context], Iterator[Finding]]] = partial(_rival, "Triton")
