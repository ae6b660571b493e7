"""Softmax of rows of any width: one workgroup per row, whose lanes stride over it.

Maximum and sum are computed by trees, so that the order of additions, and with it every bit, is fixed.
"""

from __future__ import annotations

import math

import numpy as np

import vyre
from vyre import DispatchConfig, In, InOut, Out, Program, f32, like, u32
from vyre.gallery.example import Array, Case, Dispatcher, Example, answered_by, random_f32

LANES, TREE_ROUNDS = 64, 6


@vyre.function
def over_workgroup(scratch: InOut[f32], lane: u32, largest: bool) -> f32:
    """Returns the sum or the maximum of the elements of ``scratch`` over the workgroup, in every lane."""
    vyre.barrier()
    for k in range(TREE_ROUNDS):
        stride = LANES // 2 >> k
        if lane < stride:
            left, right = scratch[lane], scratch[lane + stride]
            scratch[lane] = vyre.max_(left, right) if largest else left + right
        vyre.barrier()
    result = scratch[0]
    vyre.barrier()
    return result


@vyre.kernel(workgroup=LANES)
def softmax_rows(width: u32, x: In[f32], out: Out[f32, like("x")]) -> None:
    """Each workgroup computes the softmax of one row of ``width`` elements."""
    scratch = vyre.workgroup_array(f32, LANES)
    lane = vyre.local_id()
    base = vyre.group_id() * width
    most = float("-inf")
    for k in range(lane, width, LANES):
        most = vyre.max_(most, x[base + k])
    scratch[lane] = most
    peak = over_workgroup(scratch, lane, True)
    total = 0.0
    for k in range(lane, width, LANES):
        total += math.exp(x[base + k] - peak)
    scratch[lane] = total
    whole = over_workgroup(scratch, lane, False)
    for k in range(lane, width, LANES):
        out[base + k] = math.exp(x[base + k] - peak) / whole


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


EXAMPLE = Example("softmax", "softmax of rows of any width", softmax_rows, case, "NumPy", answered_by(softmax, "out"))
