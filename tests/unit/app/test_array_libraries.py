"""Arrays of pandas, pyarrow and PyTorch themselves, where they are installed (the dependency group ``arrays``).

What the doubles of ``support.foreign_arrays`` do is modelled on these.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import vyre
from support.small_programs import saxpy_program
from vyre.domain.errors import InvalidInput

X = np.arange(8, dtype=np.float32)
Y = np.ones(8, dtype=np.float32)
PROGRAM = saxpy_program()


@pytest.fixture(params=["reference", "cpu", "cuda-machine"])
def session(request: pytest.FixtureRequest) -> Iterator[vyre.Session]:
    with vyre.open(request.param, cache=False) as opened:
        yield opened


def installed(name: str) -> Any:
    """Returns the library; skips the test where it is not installed."""
    return pytest.importorskip(name, reason=f"{name} is not installed; the doubles stand for it")


def check(session: vyre.Session, given: Any) -> None:
    np.testing.assert_array_equal(session.dispatch(PROGRAM, {"a": 2.0, "x": given, "y": Y})["y"], 2 * X + Y)
    with session.resident(given) as x, session.resident(Y) as y:
        session.dispatch(PROGRAM, {"a": 2.0, "x": x, "y": y})
        np.testing.assert_array_equal(y.download(), 2 * X + Y)


def refused(session: vyre.Session, given: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        session.dispatch(PROGRAM, {"a": 2.0, "x": given, "y": Y})
    assert "Fix: " in str(caught.value)


def test_pandas(session: vyre.Session) -> None:
    pd = installed("pandas")
    for given in (pd.Series(X), pd.Index(X), pd.DataFrame({"u": X, "v": Y})["u"], pd.array(X, dtype="Float32")):
        check(session, given)
    refused(session, pd.Series(np.arange(16, dtype=np.float32))[::2], "not C-contiguous")
    refused(session, pd.Series([1, None, "a"], dtype=object), "Python objects")
    refused(session, pd.Series(X.astype(np.float64)), "holds f32, got an array of float64")
    seen = pd.Series(session.dispatch(PROGRAM, {"a": 2.0, "x": pd.Series(X), "y": pd.Series(Y)})["y"])
    assert seen.sum() == (2 * X + Y).sum()


def test_pyarrow(session: vyre.Session) -> None:
    pa = installed("pyarrow")
    column = pa.table({"u": X})["u"]
    for given in (
        pa.array(X),
        pa.array(np.arange(-2, 8, dtype=np.float32))[2:],
        pa.chunked_array([X[:3], X[3:]]),
        column,
    ):
        check(session, given)
    for missing in (pa.array([1.0, None], pa.float32()), pa.chunked_array([pa.array([None], pa.float32())])):
        refused(session, missing, "1 missing values")
    refused(session, pa.array(["a"]), "Python objects")
    if session.backend != "cuda-machine":
        with session.adopt(pa.array(X)) as x:
            np.testing.assert_array_equal(x.download(), X)


def test_torch(session: vyre.Session) -> None:
    torch = installed("torch")
    check(session, torch.arange(8, dtype=torch.float32))
    refused(session, torch.ones(8, requires_grad=True), r"detach\(\)")
    refused(session, torch.ones(8, dtype=torch.bfloat16), "(?i)bfloat16")
    refused(session, torch.ones(16)[::2], "not C-contiguous")
