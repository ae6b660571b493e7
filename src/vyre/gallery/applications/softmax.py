"""Softmax of rows of any width: one workgroup per row, whose lanes stride over it.

Maximum and sum are computed by trees, so that the order of additions, and with it every bit, is fixed.
"""

from __future__ import annotations

import numpy as np

from vyre import BufferHandle, DispatchConfig, Program, ProgramBuilder, Value, exp, f32, max_, u32
from vyre.gallery.example import Array, Case, Dispatcher, Example, Outputs, random_f32

LANES = 64


def reduce(p: ProgramBuilder, scratch: BufferHandle, lane: Value, *, largest: bool) -> Value:
    """Returns the sum or the maximum of the elements of ``scratch`` over the workgroup, in every lane."""
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
    """Builds the kernel: each workgroup computes the softmax of one row of ``width`` elements."""
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
    """Returns the softmax of each row of an f32 matrix."""
    rows, width = x.shape
    inputs = {"width": width, "x": x.reshape(-1)}
    return session.dispatch(program, inputs, DispatchConfig(grid=(rows, 1, 1)))["out"].reshape(x.shape)


def softmax_by_numpy(x: Array) -> Array:
    """Returns the same from NumPy, with the same order of additions; exp is computed in f64 and rounded once."""
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
    """Returns a random matrix, and the softmax of its rows from NumPy."""
    x = (random_f32(44, 5 * 150) * np.float32(8)).reshape(5, 150)
    return Case({"x": x}, {"out": softmax_by_numpy(x)}, tolerance_ulp=1)


def run(session: Dispatcher, program: Program, case: Case) -> Outputs:
    """Computes the softmax of the rows and returns it."""
    return {"out": softmax(session, program, np.asarray(case.inputs["x"]))}


EXAMPLE = Example("softmax", "softmax of rows of any width", softmax_rows, case, "NumPy", run)
