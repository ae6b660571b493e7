"""Races in arrays of several axes name the row and the column."""

from __future__ import annotations

import numpy as np
import pytest

import vyre
from vyre import In, InOut, Out, like, u32
from vyre.domain.errors import DataRaceError


@vyre.kernel(workgroup=(4, 4))
def into_one_cell(x: In[u32, 2], y: Out[u32, 2, like("x")]) -> None:
    row, column = vyre.global_id(1), vyre.global_id(0)
    y[1, 2] = x[row, column] + row * 10 + column


@vyre.kernel(workgroup=(4, 4))
def into_one_voxel(x: InOut[u32, 3]) -> None:
    x[1, 2, 3] = vyre.global_id(0) + vyre.global_id(1)


@pytest.mark.parametrize("backend", ["reference", "cuda-machine"])
def test_races_in_tables_and_volumes_name_the_index_along_each_axis(backend: str) -> None:
    with vyre.open(backend, cache=False) as session:
        with pytest.raises(DataRaceError, match=r"data race: y\[1, 2\]: store") as caught:
            session.dispatch(into_one_cell, {"x": np.zeros((4, 5), np.uint32)}, race_check=True)
        assert caught.value.races[0].position == (1, 2)
        assert caught.value.races[0].to_json()["position"] == [1, 2]
        with pytest.raises(DataRaceError, match=r"data race: x\[1, 2, 3\]: store"):
            session.dispatch(into_one_voxel, {"x": np.zeros((2, 3, 4), np.uint32)}, race_check=True)
