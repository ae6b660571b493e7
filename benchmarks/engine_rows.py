"""The vectorised engine against hand-written NumPy, through ``Session.dispatch``: NumPy arrays in and out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import vyre
from benchmarks import kernels
from benchmarks.harness import Metric, Row, Samples, Work, compare, measure

Arrays = Mapping[str, Any]
Array = npt.NDArray[Any]

_COMPILED: Final = "program compiled, arrays in memory"
_SIMULATED_LANES: Final = 4096
_OUR_LANES: Final = 1_000_000


def _both(rounds: int, program: vyre.Program, inputs: Arrays, output: str, numpy_job: Callable[[], Array]) -> Samples:
    with vyre.open(backend="reference") as session:

        def ours() -> Array:
            return np.asarray(session.dispatch(program, inputs)[output])

        if not np.array_equal(ours(), numpy_job()):
            raise AssertionError(f"{program.name}: the two sides disagree")
        return compare(ours, numpy_job, rounds)


def _saxpy_inputs(n: int) -> dict[str, Any]:
    source = np.random.default_rng(1)
    return {"a": 2.5, "x": source.random(n, np.float32), "y": source.random(n, np.float32)}


def _saxpy(rounds: int) -> Samples:
    inputs = _saxpy_inputs(_OUR_LANES)
    a, x, y = np.float32(inputs["a"]), inputs["x"], inputs["y"]
    return _both(rounds, kernels.saxpy(), inputs, "y2", lambda: a * x + y)


def _fnv1a(rounds: int) -> Samples:
    lanes, length = 4096, 256
    messages = np.random.default_rng(2).integers(0, 256, (lanes, length), np.uint8)
    prime = np.uint32(kernels.FNV_PRIME)

    def by_hand() -> Array:
        h = np.full(lanes, kernels.FNV_OFFSET, np.uint32)
        for p in range(length):
            h = (h ^ messages[:, p]) * prime
        return h

    return _both(rounds, kernels.fnv1a(lanes, length), {"messages": messages.ravel()}, "hashes", by_hand)


def _histogram(rounds: int) -> Samples:
    bins = 256
    words = np.random.default_rng(3).integers(0, bins, 1_000_000, np.uint32)
    return _both(
        rounds, kernels.histogram(bins), {"words": words}, "counts", lambda: np.bincount(words, minlength=bins)
    )


def _tree_reduction(rounds: int) -> Samples:
    n, workgroup = 1 << 22, 256
    x = np.random.default_rng(4).integers(0, 1 << 32, n, np.uint32)
    starts = np.arange(0, n, workgroup)
    return _both(
        rounds,
        kernels.tree_reduction(n // workgroup, workgroup),
        {"x": x},
        "sums",
        lambda: np.add.reduceat(x, starts, dtype=np.uint32),
    )


def _used_atomics(rounds: int) -> Samples:
    cells = 1 << 16
    keys = np.random.default_rng(5).integers(0, cells, 1_000_000, np.uint32)
    program = kernels.tickets(cells)
    with vyre.open(backend="reference") as session:
        result = session.dispatch(program, {"keys": keys})
        _check_tickets(keys, cells, np.asarray(result["counters"]), np.asarray(result["taken"]))
        return measure(lambda: session.dispatch(program, {"keys": keys}), rounds)


def _check_tickets(keys: Array, cells: int, counters: Array, taken: Array) -> None:
    """Lanes of one cell take 0, 1, 2, ... in ascending order."""
    order = np.argsort(keys, kind="stable")
    counts = np.bincount(keys, minlength=cells)
    first = np.repeat(np.cumsum(counts) - counts, counts)
    if not (np.array_equal(counters, counts) and np.array_equal(taken[order], np.arange(keys.size) - first)):
        raise AssertionError("tickets: a number was taken twice or out of order")


def _narrow(rounds: int) -> Samples:
    """Rounding to f16, less the time of a kernel that copies, against NumPy's conversion there and back."""
    inputs = {"x": np.random.default_rng(6).standard_normal(_OUR_LANES, np.float32)}
    narrowing, copying = kernels.mapped("narrow<f16>(x[gid.x])"), kernels.mapped("x[gid.x]")

    def by_hand() -> Array:
        return inputs["x"].astype(np.float16).astype(np.float32)

    ours: list[float] = []
    theirs: list[float] = []
    with vyre.open(backend="reference") as session:
        if not np.array_equal(np.asarray(session.dispatch(narrowing, inputs)["y"]), by_hand()):
            raise AssertionError("narrow: the two sides disagree")
        for _ in range(rounds):
            sample = compare(lambda: session.dispatch(narrowing, inputs), by_hand, 1)
            copied = measure(lambda: session.dispatch(copying, inputs), 1)
            ours.append(sample.ours[0] - copied.ours[0])
            theirs.append(sample.theirs[0])
    return Samples(ours, theirs)


def _numba_simulator(rounds: int) -> Samples:
    """Seconds a lane of saxpy; the simulator runs in a process of its own, a launch of ours between two of its."""
    command = [sys.executable, str(Path(__file__).with_name("numba_simulator.py")), str(_SIMULATED_LANES)]
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    program, inputs = kernels.saxpy(), _saxpy_inputs(_OUR_LANES)
    ours: list[float] = []
    theirs: list[float] = []
    with (
        vyre.open(backend="reference") as session,
        subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as simulator,
    ):
        assert simulator.stdin is not None and simulator.stdout is not None
        work: Work = lambda: session.dispatch(program, inputs)  # noqa: E731
        for _ in range(rounds):
            ours.append(measure(work, 1).ours[0] / _OUR_LANES)
            simulator.stdin.write("go\n")
            simulator.stdin.flush()
            reply = simulator.stdout.readline()
            if not reply:
                raise RuntimeError("the numba simulator ended early. Fix: install the `bench` dependency group.")
            theirs.append(json.loads(reply)["seconds"] / _SIMULATED_LANES)
        simulator.stdin.close()
    return Samples(ours, theirs)


ROWS: Final = (
    Row("saxpy-1e6", Metric.RATIO, "x NumPy", 3.0, 2.0, _saxpy, _COMPILED),
    Row("fnv1a-4096x256", Metric.RATIO, "x NumPy", 2.0, 1.3, _fnv1a, _COMPILED),
    Row("histogram-1e6", Metric.RATIO, "x NumPy", 2.5, 1.5, _histogram, _COMPILED),
    Row("tree-reduction-2^22", Metric.RATIO, "x NumPy", 25.0, 8.0, _tree_reduction, _COMPILED),
    Row("narrow-f16-1e6", Metric.RATIO, "x NumPy, net of a copying kernel", 1.5, 1.0, _narrow, _COMPILED),
    Row("used-atomics-1e6", Metric.COST, "ms", 400.0, None, _used_atomics, _COMPILED, scale=1e3),
    Row("numba-simulator", Metric.SPEEDUP, "x faster a lane", 200.0, None, _numba_simulator, _COMPILED),
)
