"""Arrays of ``ml_dtypes.bfloat16`` are arrays of bf16 wherever a caller passes them, and of no other type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import ml_dtypes
import numpy as np
import pytest

import vyre
from vyre import In, InOut, Out, bf16, f32, like, u16
from vyre.domain.errors import InvalidInput

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
X = np.array([0.0, 1.5, -2.0, 3.140625, 1e30, -0.0], BFLOAT16)
TWICE = (X.astype(np.float32) * 2).astype(BFLOAT16)
T = TypeVar("T")


@vyre.kernel
def doubled(x: In[bf16], y: InOut[bf16], z: Out[bf16, like("x")]) -> None:
    i = vyre.global_id()
    if i < len(x):
        y[i] = x[i] * 2.0
        z[i] = x[i] * 2.0


@vyre.kernel
def widened(x: In[T], y: Out[f32, like("x")]) -> None:
    i = vyre.global_id()
    if i < len(x):
        y[i] = x[i]


@vyre.kernel
def counted(x: InOut[u16]) -> None:
    i = vyre.global_id()
    if i < len(x):
        x[i] = x[i] + 1


@pytest.fixture(params=["reference", "cpu", "cuda-machine"])
def session(request: pytest.FixtureRequest) -> Iterator[vyre.Session]:
    with vyre.open(request.param, cache=False) as opened:
        yield opened


def test_a_called_kernel_reads_and_writes_them(session: vyre.Session) -> None:
    with session:
        y, z = X.copy(), np.zeros(6, BFLOAT16)
        left_out = doubled(X, y)
        doubled(X, y, z)
    assert left_out.view(BFLOAT16).tobytes() == y.tobytes() == z.tobytes() == TWICE.tobytes()


def test_a_dispatch_reads_them_and_writes_those_of_out(session: vyre.Session) -> None:
    z, y = np.zeros(6, BFLOAT16), X.copy()
    result = session.dispatch(doubled, {"x": X, "y": y}, out={"z": z, "y": y})
    assert result["z"] is z
    assert z.tobytes() == y.tobytes() == TWICE.tobytes()


def test_they_name_the_type_of_a_generic_kernel(session: vyre.Session) -> None:
    with session:
        np.testing.assert_array_equal(widened(X), X.astype(np.float32))


def test_resident_memory_keeps_their_type(session: vyre.Session) -> None:
    with session.resident(X) as x, session.resident(np.zeros(6, BFLOAT16)) as y:
        session.dispatch(doubled, {"x": x, "y": y})
        assert y.download().dtype == BFLOAT16
        assert y.download().tobytes() == session.download([y[:3], y[3:]])[0].tobytes() + TWICE[3:].tobytes()
        y.upload(X)
        assert y.view(1, 2, ml_dtypes.bfloat16).download().tobytes() == X[1:3].tobytes()


def test_other_types_refuse_them(session: vyre.Session) -> None:
    with pytest.raises(InvalidInput, match="u16, got an array of bfloat16"):
        session.dispatch(counted, {"x": X})
    with session.resident(X) as x, pytest.raises(InvalidInput, match="u16, got resident memory of bfloat16"):
        session.dispatch(counted, {"x": x})
    with session, pytest.raises(InvalidInput, match="array of bfloat16, and uint16"):
        counted(X)
