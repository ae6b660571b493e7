"""Softmax of rows of any width: one workgroup per row, each lane striding over it.

Maximum and sum are taken by trees, so that the order of additions, and with it every bit, is fixed.
"""

from __future__ import annotations

import numpy as np

from vyre import BufferHandle, DispatchConfig, Program, ProgramBuilder, Value, exp, f32, max_, u32
from vyre.gallery.example import Array, Case, Dispatcher, Example, Outputs, random_f32

LANES = 64


def reduce(p: ProgramBuilder, scratch: BufferHandle, lane: Value, *, largest: bool) -> Value:
    """Sum or maximum over the workgroup of what each lane has put into ``scratch``, for every lane."""
    p.barrier()
    with p.for_(0, LANES.bit_length() - 1) as k:
        stride = p.let(u32(LANES // 2) >> k, "stride")
        with p.if_(lane < stride):
            left, right = scratch[lane], scratch[lane + stride]
            scratch[lane] = max_(left, right) if largest else left + right
        p.barrier()
    result = p.let(scratch[0])
    p.barrier()
    return result


def softmax_rows() -> Program:
    with ProgramBuilder("softmax_rows", workgroup=LANES) as p:
        width = p.param("width", u32)
        x = p.input("x", f32)
        out = p.output("out", f32, like=x)
        scratch = p.workgroup("scratch", f32, LANES)
        lane = p.local_id()
        base = p.let(p.group_id() * width, "base")
        most = p.var(float("-inf"), "most")
        with p.for_(lane, width, LANES) as k:
            most.assign(max_(most, x[base + k]))
        scratch[lane] = most
        peak = reduce(p, scratch, lane, largest=True)
        total = p.var(0.0, "total")
        with p.for_(lane, width, LANES) as k:
            total += exp(x[base + k] - peak)
        scratch[lane] = total
        whole = reduce(p, scratch, lane, largest=False)
        with p.for_(lane, width, LANES) as k:
            out[base + k] = exp(x[base + k] - peak) / whole
    return p.build()


def softmax(session: Dispatcher, program: Program, x: Array) -> Array:
    """Softmax of each row of an f32 matrix."""
    rows, width = x.shape
    inputs = {"width": width, "x": x.reshape(-1)}
    return session.dispatch(program, inputs, DispatchConfig(grid=(rows, 1, 1)))["out"].reshape(x.shape)


def softmax_by_numpy(x: Array) -> Array:
    """The same order of additions; exp is taken in f64 and rounded once."""
    rows, width = x.shape
    e = np.exp((x - x.max(axis=1, keepdims=True)).astype(np.float64)).astype(np.float32)
    strided = np.zeros((rows, -(-width // LANES) * LANES), np.float32)
    strided[:, :width] = e
    total = np.zeros((rows, LANES), np.float32)
    for part in np.split(strided, strided.shape[1] // LANES, axis=1):
        total = total + part
    while total.shape[1] > 1:
        half = total.shape[1] // 2
        total = total[:, :half] + total[:, half:]
    answer: Array = e / total
    return answer


def case() -> Case:
    x = (random_f32(44, 5 * 150) * np.float32(8)).reshape(5, 150)
    return Case({"x": x}, {"out": softmax_by_numpy(x)}, tolerance_ulp=1)


def run(session: Dispatcher, program: Program, case: Case) -> Outputs:
    return {"out": softmax(session, program, np.asarray(case.inputs["x"]))}


EXAMPLE = Example("softmax", "softmax of rows of any width", softmax_rows, case, "NumPy", run)
