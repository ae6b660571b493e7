"""Costs of the ``cpu`` backend around its kernels: launches, compilation, stored code, threads, the demo."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

import numpy as np

import vyre
from benchmarks import kernels, program_shapes
from benchmarks.cpu import programs
from benchmarks.cpu.contenders import THREADS_VARIABLE, backend
from benchmarks.cpu.contest import Missing, Process
from benchmarks.harness import Metric, NotMeasured, Row, Samples, measure
from benchmarks.host_rows import nodes
from benchmarks.process_rows import ROOT
from benchmarks.site import opened_session
from vyre import Program, ResidentArray, Session, Step
from vyre.app.demo import jobs as demo
from vyre.gallery.example import mismatches
from vyre.gallery.registry import examples

_LANES: Final = 64
_STEPS: Final = 1000
_TWO_THREADS_S: Final = 0.25
_LIMIT_S: Final = 120
_VARIANTS: Final = count()


DEMO_JOBS: Final = (
    "scan",
    "histogram",
    "words",
    "blake3",
    "line-ends",
    "sort",
    "bfs",
    "groups",
    "edges",
    "mandelbrot",
)
"""Short names of the demo's jobs, in their order."""


# ---------------------------------------------------------------- launches
@contextmanager
def two_words(session: Session) -> Iterator[tuple[ResidentArray, ResidentArray]]:
    """Yields two resident arrays of u32: 0, 1, 2, ... and zeros."""
    with (
        session.resident(np.arange(_LANES, dtype=np.uint32)) as x,
        session.resident(np.zeros(_LANES, np.uint32)) as y,
    ):
        yield x, y


def _bound_launch(rounds: int) -> Samples:
    with opened_session() as session, two_words(session) as (x, y):
        with session.bind_resident(kernels.one_store(), {"x": x, "y": y}) as bound:
            samples = measure(bound.launch, rounds)
        if not np.array_equal(y.download(), np.arange(1, _LANES + 1)):
            raise AssertionError("one_store computes something else")
        return samples


def _dispatch(rounds: int) -> Samples:
    program, x = kernels.one_store(), np.arange(_LANES, dtype=np.uint32)
    with opened_session() as session:
        if not np.array_equal(session.dispatch(program, {"x": x})["y"], x + 1):
            raise AssertionError("one_store computes something else")
        return measure(lambda: session.dispatch(program, {"x": x})["y"], rounds)


def _list_step(rounds: int) -> Samples:
    """Seconds a step of a sequence of small launches, each of which reads what the one before has written."""
    with opened_session() as session, two_words(session) as (x, y):
        program = kernels.one_store()
        pair = [Step(program, {"x": x, "y": y}), Step(program, {"x": y, "y": x})]
        sequence = session.sequence(pair * (_STEPS // 2))
        sequence()
        if not np.array_equal(x.download(), np.arange(_LANES) + _STEPS):
            raise AssertionError("a step of the sequence did not run")
        return Samples([seconds / _STEPS for seconds in measure(sequence, rounds).ours])


# ---------------------------------------------------------------- compilation
def _processor_ns() -> int:
    """Returns the processor time of this process and of its children in nanoseconds, as Linux counts it."""
    children = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    pids = {pid for path in children for pid in path.read_text().split()}
    total = time.process_time_ns()
    for pid in pids:
        for schedule in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            total += int(schedule.read_text().split()[0])
    return total


def _compile(make: Callable[[int], Program], size: int, rounds: int) -> Samples:
    """Programs that nothing has seen, without a store, until a launch of 64 lanes has ended."""
    inputs: dict[str, bytes] = {}
    found = []
    with opened_session(cache=False) as session:
        for index in range(rounds + 1):
            fresh = make(next(_VARIANTS))
            if index == 0:
                if not 0.9 * size <= nodes(fresh) <= 1.1 * size:
                    raise AssertionError(f"{fresh.name} has {nodes(fresh)} nodes, not about {size}")
                inputs = {buffer.name: bytes(4 * (buffer.count or _LANES)) for buffer in fresh.abi_buffers}
            start = _processor_ns()
            session.dispatch(fresh, inputs)
            found.append((_processor_ns() - start) / 1e9)
    return Samples(found[1:])  # the first one imports the compiler


_STORED: Final = """
import gc, sys, time
import numpy as np
from benchmarks import kernels
from benchmarks.cpu.launches import opened
backend, folder, first, use = sys.argv[1:]
other, program = kernels.one_store(), kernels.saxpy()
with opened(backend, cache=folder) as session:
    n = 64
    words = [session.resident(np.zeros(n, np.uint32)) for _ in range(2)]
    floats = [session.resident(np.full(n, k, np.float32)) for k in range(3)]
    inputs = {"a": 2.0, "x": floats[1], "y": floats[2], "y2": floats[0]}
    gc.collect()  # as for every row: what imports have left is not collected in the time that is measured
    gc.disable()
    if first != "first":
        session.bind_resident(other, {"x": words[0], "y": words[1]})()
    start = time.perf_counter()
    bound = session.bind_resident(program, inputs)
    bound()
    seconds = time.perf_counter() - start
    if floats[0].download()[0] != 4.0:
        sys.exit("saxpy computes something else")
    bound.close()
if use == "stored" and "llvmlite" in sys.modules:
    sys.exit("a stored kernel needed llvmlite")
print(seconds)
"""


def _stored(first: str, rounds: int) -> Samples:
    """Measures fresh processes, which find in their store what the first one has compiled.

    They must not import llvmlite.
    """
    with opened_session():
        pass  # the backend can run here
    with tempfile.TemporaryDirectory() as folder:

        def fresh(which: str, use: str) -> float:
            command = [sys.executable, "-W", "ignore", "-c", _STORED, backend(), folder, which, use]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=_LIMIT_S)
            if done.returncode:
                raise AssertionError(f"a fresh process failed: {done.stderr.strip()[-500:]}")
            return float(done.stdout.split()[-1])

        fresh("second", "empty")
        return Samples([fresh(first, "stored") for _ in range(rounds)])


# ---------------------------------------------------------------- threads
def _two_threads(job: str, rounds: int) -> Samples:
    """Measures what two threads gain in wall time, as a part of what two processes gain in the same round."""
    one, other, both = (Process("vyre", {THREADS_VARIABLE: threads}) for threads in ("1", "1", "2"))
    try:
        for process in (one, other, both):
            process.ask(job=job, size="full")
            process.answer()
        found = []
        for _ in range(rounds):
            repeat = max(1, round(_TWO_THREADS_S / _wall(one, 1)))
            alone = _wall(one, repeat)
            together = _wall(both, repeat)
            for process in (one, other):
                process.ask(sample=repeat)
            apart = max(process.answer()["wall_s"] for process in (one, other))
            found.append((alone / together) / (2 * alone / apart))
        return Samples(found)
    except Missing as missing:
        raise NotMeasured(str(missing)) from None
    finally:
        for process in (one, other, both):
            process.close()


def _wall(process: Process, repeat: int) -> float:
    process.ask(sample=repeat)
    return float(process.answer()["wall_s"])


# ---------------------------------------------------------------- the demo and the gallery
def _demo_job(index: int, rounds: int) -> Samples:
    """Returns the processor seconds of a job of ``make demo``, and those of the reference."""
    job = demo.all_jobs()[index]
    program = job.program()
    with opened_session() as ours, vyre.open("reference") as reference:
        if not np.array_equal(job.run(ours, program), job.expected()):
            raise AssertionError(f"{job.name}: the answer is wrong")
        job.run(reference, program)
        found = Samples([], [])
        for _ in range(rounds):
            for session, seconds in ((ours, found.ours), (reference, found.theirs)):
                start = time.process_time()
                job.run(session, program)
                seconds.append(time.process_time() - start)  # type: ignore[attr-defined]
        return found


def gallery() -> dict[str, object]:
    """Measures every example of the gallery on both backends: processor milliseconds from host array to host array."""
    found: dict[str, object] = {}
    try:
        with opened_session() as ours, vyre.open("reference") as reference:
            for name, example in examples().items():
                program, case = example.program(), example.case()
                times = {}
                for backend_name, session in (("ours", ours), ("reference", reference)):
                    if wrong := mismatches(case, example.run(session, program, case)):
                        raise AssertionError(f"{name} on {backend_name}: {wrong}")
                    times[backend_name] = _least_milliseconds(lambda: example.run(session, program, case))  # noqa: B023
                found[name] = times
    except NotMeasured as missing:
        return {"not measured": str(missing)}
    return found


def _least_milliseconds(work: Callable[[], object]) -> float:
    taken = []
    for _ in range(5):
        start = time.process_time_ns()
        work()
        taken.append(time.process_time_ns() - start)
    return round(min(taken) / 1e6, 4)


_QUIET: Final = "program compiled, memory resident, wall time"
_FIFTY: Final = partial(_compile, kernels.fifty_nodes, 50)
_TWO_THOUSAND: Final = partial(_compile, programs.two_thousand_nodes, 2000)
_LONG: Final = 2**14
_SIXTEEN_THOUSAND: Final = partial(_compile, lambda variant: program_shapes.ifs(_LONG + 7 * variant), _LONG)
_NEW: Final = "compiler imported, programs new, no store, processor time with helpers"
_FRESH: Final = "fresh process, session open, code in the store, wall time"
_LINE: Final = "two threads / two processes, wall time"
ROWS: Final = (
    Row("bound-launch", Metric.COST, "us", 5.0, 3.0, _bound_launch, _QUIET, scale=1e6),
    Row("dispatch", Metric.COST, "us", 25.0, 12.0, _dispatch, "program compiled, wall time", scale=1e6),
    Row("list-step", Metric.COST, "us", 1.0, 0.5, _list_step, _QUIET, scale=1e6),
    Row("stored-launch", Metric.COST, "ms", 1.0, 0.3, partial(_stored, "second"), _FRESH, scale=1e3),
    Row("stored-launch-first", Metric.COST, "ms", None, None, partial(_stored, "first"), _FRESH, scale=1e3),
    Row("compile-50-nodes", Metric.COST, "ms", 60.0, 30.0, _FIFTY, _NEW, scale=1e3),
    Row("compile-2000-nodes", Metric.COST, "ms", 1500.0, 600.0, _TWO_THOUSAND, _NEW, scale=1e3),
    Row("compile-16384-nodes-of-ifs", Metric.COST, "ms", 1500.0, None, _SIXTEEN_THOUSAND, _NEW, scale=1e3),
    Row("two-threads/mandelbrot", Metric.RATE, "of 2 processes", 0.9, None, partial(_two_threads, "mandelbrot"), _LINE),
    Row("two-threads/matmul-512", Metric.RATE, "of 2 processes", 0.9, None, partial(_two_threads, "matmul-512"), _LINE),
    *(
        Row(
            f"demo/{name}", Metric.SPEEDUP, "x reference", 5.0, None, partial(_demo_job, index), "compiled, host arrays"
        )
        for index, name in enumerate(DEMO_JOBS)
    ),
)
