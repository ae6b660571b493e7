"""The rows compare the costs of kernels in plain Python with those of the builder and of the session's own calls."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from itertools import cycle
from typing import Any, Final

import numpy as np

import vyre
from benchmarks.harness import Metric, Row, Samples, compare
from vyre import In, InOut, Out, f32, like, u32

_LANES: Final = 4096
_ARRAYS: Final = 64
"""How many arrays of each kind calls with new arrays take in turn."""


@vyre.kernel(workgroup=256)
def saxpy(a: f32, x: In[f32], y: InOut[f32]) -> None:
    i = vyre.global_id()
    if i < len(x):
        y[i] = a * x[i] + y[i]


def mixed(words: In[u32], weights: In[f32], y: Out[f32, like("words")]) -> None:
    i = vyre.global_id()
    if i < len(words):
        h = words[i] ^ 2166136261
        acc: f32 = weights[i % len(weights)]
        for k in range(16):
            h = (h ^ (h >> 15)) * 16777619
            if h & 1 == 0:
                acc += f32(h & 255) * 0.5
            else:
                acc = min(acc, f32(k) - weights[(h + k) % len(weights)])
        y[i] = max(acc, -1.0) + f32(h % 7)


def built_saxpy() -> vyre.Program:
    with vyre.ProgramBuilder("saxpy", workgroup=256) as p:
        a = p.param("a", f32)
        x = p.input("x", f32)
        y = p.inout("y", f32)
        i = p.let(p.global_id())
        with p.if_(i < x.length):
            y[i] = a * x[i] + y[i]
    return p.build()


def built_mixed() -> vyre.Program:
    with vyre.ProgramBuilder("mixed", workgroup=256) as p:
        words = p.input("words", u32)
        weights = p.input("weights", f32)
        y = p.output("y", f32, like=words)
        i = p.let(p.global_id())
        with p.if_(i < words.length):
            h = p.var(words[i] ^ 2166136261)
            acc = p.var(weights[i % weights.length])
            with p.for_(0, 16) as k:
                h.assign((h ^ (h >> 15)) * 16777619)
                with p.if_((h & 1) == 0):
                    acc.assign(acc + (h & 255).cast(f32) * 0.5)
                with p.else_():
                    other = p.let(k.cast(f32) - weights[(h + k) % weights.length])
                    acc.assign(vyre.select(other < acc, other, acc))
            low = p.let(f32(-1.0))
            y[i] = vyre.select(low > acc, low, acc) + (h % 7).cast(f32)
    return p.build()


def _arguments() -> tuple[Any, Any]:
    return np.arange(_LANES, dtype=np.float32), np.zeros(_LANES, np.float32)


def _same_arrays(backend: str, rounds: int) -> Samples:
    x, y = _arguments()
    with vyre.open(backend=backend) as session:
        launch = session.bind(saxpy.program, {"a": 2.0, "x": x, "y": y})
        expected = launch()["y"]
        saxpy(2.0, x, y)
        if y.tobytes() != expected.tobytes():
            raise AssertionError("the call and the bound launch give other results")
        both = compare(lambda: saxpy(2.0, x, y), launch, rounds)
    return Samples([ours - theirs for ours, theirs in zip(both.ours, both.theirs, strict=True)])


def _new_arrays(backend: str, rounds: int) -> Samples:
    pairs = cycle([_arguments() for _ in range(_ARRAYS)])
    program = saxpy.program

    def called() -> None:
        x, y = next(pairs)
        saxpy(2.0, x, y)

    def dispatched() -> None:
        x, y = next(pairs)
        session.dispatch(program, {"a": 2.0, "x": x, "y": y})["y"]

    with vyre.open(backend=backend) as session:
        return compare(called, dispatched, rounds)


def _built(function: Callable[..., None], builder: Callable[[], vyre.Program], rounds: int) -> Samples:
    if vyre.kernel(function).program.to_text().count("\n") < builder().to_text().count("\n") - 2:
        raise AssertionError("the two forms are of different sizes")
    return compare(lambda: vyre.kernel(function).program, builder, rounds, time.thread_time)


ROWS: Final = (
    Row("kernel-call-same-arrays", Metric.COST, "us", 5.0, 2.0, partial(_same_arrays, "cpu"),
        "compiled; beyond a bound launch on cpu", scale=1e6),
    Row("kernel-call-new-arrays", Metric.RATIO, "x", 0.7, 0.6, partial(_new_arrays, "cpu"),
        "compiled; beside Session.dispatch on cpu"),
    Row("kernel-build", Metric.RATIO, "x", 2.0, 1.5, partial(_built, saxpy.__wrapped__, built_saxpy),
        "source lines in memory; processor time beside the builder"),
    Row("kernel-build-longer", Metric.RATIO, "x", 2.0, 1.5, partial(_built, mixed, built_mixed),
        "source lines in memory; processor time beside the builder"),
)  # fmt: skip
