"""Bitonic sort (Batcher) of 2^n keys in global memory: n (n + 1) / 2 dispatches of one compare-exchange kernel."""

from __future__ import annotations

import numpy as np

import vyre
from vyre import DispatchConfig, InOut, Program, u32
from vyre.gallery.example import Array, Case, Dispatcher, Example, Inputs, answered_by, random_u32


@vyre.kernel(workgroup=256)
def compare_exchange(block: u32, stride: u32, keys: InOut[u32]) -> None:
    """One lane orders one pair.

    The pair's elements are ``stride`` apart, in ascending order where bit ``block`` of the index is clear.
    """
    pair = vyre.global_id()
    if pair < len(keys) // 2:
        low = pair // stride * (stride * 2) + pair % stride
        high = low + stride
        x, y = keys[low], keys[high]
        ascending = low & block == 0
        if (x > y) == ascending:
            keys[low], keys[high] = y, x


def sort(session: Dispatcher, program: Program, keys: Array) -> Array:
    """Returns ``keys`` (u32) in ascending order."""
    size = 1 << max(keys.size - 1, 1).bit_length()
    padded = np.full(size, 0xFFFF_FFFF, np.uint32)
    padded[: keys.size] = keys
    config = DispatchConfig(extent=(size // 2,))
    block = 2
    while block <= size:
        stride = block // 2
        while stride >= 1:
            inputs: Inputs = {"block": block, "stride": stride, "keys": padded}
            padded = session.dispatch(program, inputs, config)["keys"].copy()
            stride //= 2
        block *= 2
    return padded[: keys.size]


def case() -> Case:
    """Returns random keys, and the keys in the order of ``sorted()``."""
    keys = random_u32(40, 1000)
    return Case({"keys": keys}, {"keys": np.array(sorted(keys.tolist()), np.uint32)})


EXAMPLE = Example(
    "bitonic-sort", "bitonic sort in global memory", compare_exchange, case, "sorted()", answered_by(sort, "keys")
)
