"""From program to loaded code: our emitter, then the driver's compiler, cold and from its own cache on disk."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from gpu_runs.bench import programs
from gpu_runs.bench.timing import spread
from gpu_runs.context import Context
from gpu_runs.findings import Fact, Finding
from gpu_runs.workbench import Workbench, has_driver
from vyre import Program, ProgramBuilder, u32
from vyre.adapters.cuda.ptx.emit import emit
from vyre.adapters.cuda.seam import JitOptions
from vyre.gallery.registry import examples
from vyre.testing.outcomes import Outcome, Verdict

LEVELS: Final = (0, 1, 4)


def chain(operations: int) -> Program:
    """``operations`` multiplications and exclusive ors, each needing the one before."""
    with ProgramBuilder("chain", workgroup=64) as p:
        y = p.inout("y", u32)
        i = p.global_id()
        with p.if_(i < y.length):
            v = p.var(y[i])
            for k in range(1, operations // 2 + 1):
                v.assign((v ^ (k * 0x9E37_79B9 & 0x7FFF_FFFF)) * (k * 0x85EB_CA6B & 0x7FFF_FFFE | 1))
            y[i] = v
    return p.build()


KERNELS: Final[dict[str, Callable[[], Program]]] = {
    "saxpy": lambda: programs.saxpy("one"),
    "blake3": lambda: examples()["P14"].program(),
    "chain of 10000": lambda: chain(10_000),
}


def compilation(context: Context) -> Iterator[Finding]:
    if not has_driver(context.backend):
        yield Outcome("compilation", Verdict.SKIPPED, f"`{context.backend}` has no CUDA driver")
        return
    cache = context.folder / "jit-cache"
    shutil.rmtree(cache, ignore_errors=True)
    # Read by the driver when it starts: nothing of this process has started it yet.
    os.environ["CUDA_CACHE_PATH"], os.environ["CUDA_CACHE_DISABLE"] = str(cache), "0"
    kernels = dict(list(KERNELS.items())[:2]) if context.emulated else KERNELS
    found: dict[str, Any] = {}
    with Workbench(context.backend) as bench:
        for name, make in kernels.items():
            found[name] = _measure(bench, make())
            yield Fact("compilation", dict(found))
    shutil.rmtree(cache, ignore_errors=True)


def _measure(bench: Workbench, program: Program) -> dict[str, Any]:
    work = partial(emit, program, bench.options())
    text = work().ptx
    image = text.encode() + b"\0"
    found: dict[str, Any] = {
        "ptx_bytes": len(text),
        "emit_ms": spread([_seconds(work) for _ in range(9)], 1e3, "ms"),
    }
    for level in LEVELS:
        load = partial(_load_and_unload, bench, image, JitOptions(level=level))
        cold = load()
        found[f"load_level_{level}_ms"] = {"cold": cold * 1e3, "warm": spread([load() for _ in range(5)], 1e3, "ms")}
    return found


def _load_and_unload(bench: Workbench, image: bytes, jit: JitOptions) -> float:
    """Seconds to load."""
    started = time.perf_counter()
    library = bench.driver.library_load(image, jit).library
    took = time.perf_counter() - started
    bench.driver.library_unload(library)
    return took


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
