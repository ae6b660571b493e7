"""Resident arrays as memory of other libraries: DLPack on the backends that compute on the host."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import vyre
from support.small_programs import saxpy_program
from vyre.adapters.cpu.native.compilation import llvm_version

X = np.arange(8, dtype=np.float32)


@pytest.fixture(params=["cpu", "reference", "reference-scalar"])
def session(request: pytest.FixtureRequest) -> Iterator[vyre.Session]:
    if request.param == "cpu" and llvm_version() is None:
        pytest.skip("llvmlite is not installed")
    with vyre.open(request.param) as opened:
        yield opened


@pytest.mark.parametrize(
    "array",
    [X.reshape(2, 4), np.arange(3, dtype=np.uint16), np.zeros(0, np.int32), np.array(2.5), np.zeros(3, np.float16)],
)
def test_an_export_is_the_memory_itself(
    session: vyre.Session, array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]
) -> None:
    with session.resident(array) as held:
        assert held.__dlpack_device__() == (1, 0)
        seen = np.from_dlpack(held)
        assert (seen.shape, seen.dtype, seen.tobytes()) == (array.shape, array.dtype, array.tobytes())
        seen[...] = 7
        assert held.download().tobytes() == seen.tobytes()
        held.upload(array)
        assert seen.tobytes() == array.tobytes()


def test_a_launch_is_seen_through_an_export(session: vyre.Session) -> None:
    with session.resident(np.ones(8, np.float32)) as y:
        seen = np.from_dlpack(y)
        session.bind_resident(saxpy_program(), {"a": 2.0, "x": X, "y": y})()
        assert seen.tolist() == (2 * X + 1).tolist()


def test_exported_memory_outlives_its_array(session: vyre.Session) -> None:
    held = session.resident(X)
    seen = np.from_dlpack(held)
    held.close()
    kept = [session.resident(8 * number) for number in range(20)]
    assert seen.tolist() == X.tolist()
    with pytest.raises(BufferError, match=r"after close\(\).*Fix:"):
        np.from_dlpack(held)
    for each in kept:
        each.close()


def test_the_protocol_of_the_memory_itself(session: vyre.Session) -> None:
    with session.resident(X) as held:
        assert np.from_dlpack(held.buffer).tobytes() == X.tobytes()  # type: ignore[arg-type]
        copy = np.from_dlpack(held, copy=True)
        copy[0] = 9
        assert held.download().tolist() == X.tolist()
        with pytest.raises(AttributeError, match=r"no `__cuda_array_interface__`.*Fix:"):
            held.__cuda_array_interface__  # noqa: B018


def test_elements_that_dlpack_does_not_have(session: vyre.Session) -> None:
    with session.resident(np.arange(4, dtype=">u4")) as held, pytest.raises(BufferError, match=r"`>u4`.*Fix:"):
        np.from_dlpack(held)


def test_memory_without_an_export_says_so(session: vyre.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    with session.resident(X) as held:
        monkeypatch.delattr(type(held.buffer), "dlpack")
        with pytest.raises(BufferError, match=r"no `dlpack`.*Fix:"):
            held.__dlpack__()
