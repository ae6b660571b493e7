"""Arrays of kernels whose number of elements is part of the program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vyre
from vyre import In, InOut, InvalidInput, KernelSourceError, Out, u32

COUNT = 12


@vyre.kernel(workgroup=32)
def doubled(x: In[u32, COUNT], y: InOut[u32, (2,)], z: Out[u32, (3, 4)]) -> None:  # type: ignore[valid-type, syntax]
    i = vyre.global_id()
    if i < len(x):
        z[i // 4, i % 4] = 2 * x[i]
    if i < len(y):
        y[i] += 1


def test_the_sizes_are_those_of_the_buffers() -> None:
    counts = {buffer.name: buffer.count for buffer in doubled.program.buffers if not buffer.name.endswith("width")}
    assert counts == {"x": 12, "y": 2, "z": 12}


def test_arrays_of_these_sizes_are_taken() -> None:
    y = np.array([5, 6], np.uint32)
    with vyre.open("reference"):
        z = doubled(np.arange(12, dtype=np.uint32), y)
    assert z.tolist() == [[0, 2, 4, 6], [8, 10, 12, 14], [16, 18, 20, 22]]
    assert y.tolist() == [6, 7]


def test_an_array_of_another_size_is_refused() -> None:
    with (
        vyre.open("reference"),
        pytest.raises(InvalidInput, match=r"`x` of doubled is annotated as In\[u32, 12\], which means 12 elements"),
    ):
        doubled(np.arange(13, dtype=np.uint32), np.zeros(2, np.uint32))


@pytest.mark.parametrize("given", [(u32, 0), (u32, (0,)), (u32, 5, 6), (u32, "len(y)"), (u32, (2,), 3)])
def test_other_sizes_are_refused(given: Any) -> None:
    with pytest.raises(KernelSourceError):
        In[given]  # type: ignore[valid-type]
