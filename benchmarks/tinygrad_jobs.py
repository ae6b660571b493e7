"""A job of the suite ``tinygrad`` in a process of its own: ``python -m benchmarks.tinygrad_jobs JOB ROUNDS``.

The process has one session of vyre and tinygrad's own device for CPUs.  It prints the seconds of both sides as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.harness import Samples, compare

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "tinygrad"))

import mlp
from tinygrad.helpers import Context

from tinygrad import Device, Tensor, TinyJit

OURS, THEIRS = "VYRE", "CPU"
SIZE: Final = 1024
"""Rows and columns of the matrices of the product."""
EPOCHS: Final = 40
"""Epochs of a whole training."""
SHORT, LONG = 2, 102
"""Kernels of the two chains whose difference is the time of a kernel."""
CLOSE: Final = 1e-3
"""The part of their value by which the results of a side may differ from NumPy's."""
Work = Callable[[], object]


def product(device: str) -> Work:
    """Returns a product of two f32 matrices, whose result is checked."""
    rng = np.random.default_rng(0)
    left, right = (rng.random((SIZE, SIZE), dtype=np.float32) for _ in range(2))
    x, y = (Tensor(each, device=device).realize() for each in (left, right))
    multiply = TinyJit(lambda x, y: (x @ y).realize())
    for _ in range(3):
        found = multiply(x, y)
    np.testing.assert_allclose(found.numpy(), left @ right, rtol=CLOSE)

    def work() -> None:
        multiply(x, y)
        Device[device].synchronize()

    return work


def epoch(device: str) -> Work:
    """Returns an epoch of the training, of which the first five were checked."""
    data = mlp.digits()
    losses = mlp.with_tinygrad(data, sys.maxsize, device)
    first = [next(losses) for _ in range(5)]
    np.testing.assert_allclose(first, list(mlp.with_numpy(data, 5)), rtol=CLOSE)
    return lambda: next(losses)


def whole(device: str) -> float:
    """Returns the seconds of a whole training in a process that has opened the device and compiled nothing before."""
    data = mlp.digits()
    Device[device].synchronize()
    begin = time.perf_counter()
    losses = list(mlp.with_tinygrad(data, EPOCHS, device))
    took = time.perf_counter() - begin
    np.testing.assert_allclose(losses[:5], list(mlp.with_numpy(data, 5)), rtol=CLOSE)
    return took


def chain(device: str, length: int, graph: bool) -> Work:
    """Returns ``length`` kernels of one small array, one after the other."""

    @TinyJit
    def add(x: Tensor) -> Tensor:
        for _ in range(length):
            x = (x + 1).contiguous()
        return x.realize()

    x = Tensor(np.zeros(16, np.float32), device=device).realize()
    with Context(JIT=1 if graph else 2):
        for _ in range(5):
            found = add(x)
    assert (found.numpy() == length).all()

    def work() -> None:
        add(x)
        Device[device].synchronize()

    return work


def overhead(device: str, rounds: int, *, graph: bool) -> list[float]:
    """Returns the seconds of one more kernel in a chain."""
    both = compare(chain(device, LONG, graph), chain(device, SHORT, graph), rounds)
    return [(long - short) / (LONG - SHORT) for long, short in zip(both.ours, both.theirs, strict=True)]


def measured(job: str, rounds: int) -> Samples:
    """Returns the seconds of both sides of a job."""
    if job.startswith("overhead"):
        ours, theirs = (overhead(device, rounds, graph=job == "overhead-graph") for device in (OURS, THEIRS))
        return Samples(ours, theirs)
    if job == "product":
        return compare(product(OURS), product(THEIRS), rounds)
    if job == "epoch":
        return compare(epoch(OURS), epoch(THEIRS), rounds)
    return Samples([whole(job)])  # of one device


def main() -> None:
    found = measured(sys.argv[1], int(sys.argv[2]))
    print(json.dumps({"ours": found.ours, "theirs": found.theirs}), flush=True)
    os._exit(0)  # tinygrad's finalizers print errors when the interpreter has taken its modules apart


if __name__ == "__main__":
    main()
