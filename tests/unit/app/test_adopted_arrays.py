"""Arrays of other libraries as resident memory: on the host and on the emulated device, without a copy."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import vyre
from support.foreign_arrays import CUDA, Array, CudaArray, Described, Lender, Series, Tensor
from support.small_programs import saxpy_program
from vyre.domain.errors import InvalidResource
from vyre.testing import CudaMachine, cuda_machine

X = np.arange(8, dtype=np.float32)
PROGRAM = saxpy_program()


@pytest.fixture(params=["reference", "reference-scalar", "cpu"])
def session(request: pytest.FixtureRequest) -> Iterator[vyre.Session]:
    with vyre.open(request.param, cache=False) as opened:
        yield opened


# ---------------------------------------------------------------- on the host
@pytest.mark.parametrize("make", [lambda array: array, Tensor, lambda array: Lender(array, version=(1, 0)), Described])
def test_memory_of_the_host_is_used_in_place(session: vyre.Session, make: Callable[[Array], Any]) -> None:
    y = np.ones((2, 4), np.float32)
    with session.adopt(make(y), label="theirs") as held:
        assert (held.shape, held.dtype.str, held.nbytes) == ((2, 4), "<f4", 32) and "theirs" in repr(held)
        session.dispatch(PROGRAM, {"a": 2.0, "x": X, "y": held})
        np.testing.assert_array_equal(y.reshape(-1), 2 * X + 1)
        y[...] = 5
        np.testing.assert_array_equal(held.download(), y)
        held[1:].upload(np.zeros((1, 4), np.float32))
        assert y.tolist() == [[5] * 4, [0] * 4]
    np.testing.assert_array_equal(y[0], np.full(4, 5, np.float32))


def test_memory_goes_to_another_library_and_back(session: vyre.Session) -> None:
    with session.resident(X) as r, session.adopt(np.from_dlpack(r)) as again, session.adopt(r) as direct:
        again.upload(X + 1)
        np.testing.assert_array_equal(r.download(), X + 1)
        np.testing.assert_array_equal(direct.download(), X + 1)
        with pytest.raises(InvalidResource, match=r"`x` and `y`.*same memory.*Fix:"):
            session.dispatch(PROGRAM, {"a": 1.0, "x": r, "y": again})


def test_the_owner_lives_as_long_as_it_is_adopted(session: vyre.Session) -> None:
    for make in (Tensor, Described):
        owner = make(X.copy())
        array = weakref.ref(owner.array)
        held = session.adopt(owner)
        del owner
        gc.collect()
        assert array() is not None
        np.testing.assert_array_equal(held.download(), X)
        held.close()
        gc.collect()
        assert array() is None


def test_a_capsule_is_given_back_when_it_is_closed(session: vyre.Session) -> None:
    for fields in ({}, {"version": (1, 0)}):
        lender = Lender(X.copy(), **fields)
        part = session.adopt(lender)[2:]
        gc.collect()
        assert lender.returned == 0
        part.whole.close()
        gc.collect()
        assert lender.returned == 1


def test_read_only_memory_is_read_and_not_written(session: vyre.Session) -> None:
    frozen = X.copy()
    frozen.flags.writeable = False
    for exporter in (frozen, Described(frozen), Lender(frozen), Lender(frozen, version=(1, 0), flags=1)):
        _read_only(session, exporter)
    np.testing.assert_array_equal(frozen, X)


def _read_only(session: vyre.Session, exporter: Any) -> None:
    with session.adopt(exporter) as x, session.resident(np.ones(8, np.float32)) as y:
        session.dispatch(PROGRAM, {"a": 2.0, "x": x, "y": y})
        np.testing.assert_array_equal(y.download(), 2 * X + 1)
        for use in (
            lambda: x.upload(X),
            lambda: x[2:].upload(X[2:]),
            lambda: session.dispatch(PROGRAM, {"a": 2.0, "x": y, "y": x}),
            lambda: session.bind_resident(PROGRAM, {"a": 2.0, "x": y, "y": x[:]})(),
        ):
            with pytest.raises(InvalidResource, match=r"read-only.*Fix:"):
                use()


HOST_REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "bytes": (lambda: b"1234", "shows no memory"),
    "a list": (lambda: [1.0], "shows no memory"),
    "a class": (lambda: np.float32, "shows no memory"),
    "a series, which may be copied": (lambda: Series(X), "shows no memory"),
    "gaps": (lambda: X[::2], "not contiguous"),
    "another layout": (lambda: Lender(X, shape=(2, 4), strides=(1, 2)), "not contiguous"),
    "Python objects": (lambda: np.array([None]), "objects"),
    "a mask": (lambda: np.ma.masked_less(X, 2), "a mask"),
    "odd addresses": (lambda: np.zeros(9, np.uint8)[1:].view("<f4"), "no multiple of that"),
    "a tensor on a device": (lambda: Lender(X, CUDA), "DLPack"),
    "an array of CuPy": (CudaArray, "in the memory of a GPU"),
    "freed memory": (lambda: Described(X, data=(4096, False)), "no memory at 0x1000"),
    "no memory": (lambda: Lender(X, address=None), "no memory at 0x0"),
    "a negative size": (lambda: Lender(X, shape=(-8,)), "fails to export"),
    "a shape beyond the memory": (lambda: Described(X, shape=(1 << 40,)), "no memory at"),
    "a later version": (lambda: Lender(X, version=(2, 0)), "fails to export"),
}


@pytest.mark.parametrize(("make", "message"), HOST_REFUSED.values(), ids=HOST_REFUSED)
def test_what_is_no_memory_of_the_host(make: Callable[[], Any], message: str) -> None:
    with vyre.open("reference") as session, pytest.raises(InvalidResource, match=message) as caught:
        session.adopt(make())
    assert "Fix: " in str(caught.value)


def test_a_session_closes_every_array_that_is_left_and_remembers_none_that_is_gone() -> None:
    session = vyre.open("reference")
    kept = [session.adopt(X) for _ in range(100)]
    for _ in range(1000):
        session.adopt(X).close()
        session.resident(8).close()
    assert 100 <= len(session._lease._residents) <= 2 * 101
    session.close()
    assert all(array.closed for array in kept)


# ---------------------------------------------------------------- on the device
@pytest.fixture
def machine() -> CudaMachine:
    return cuda_machine(export_fake=True)


def test_device_memory_is_lent_by_dlpack(machine: CudaMachine) -> None:
    with machine.open() as session, session.resident(np.ones((2, 4), np.float32)) as y:
        address = y.__cuda_array_interface__["data"][0]
        for fields in ({}, {"version": (1, 1)}, {"strides": (4, 1)}):
            lender = Lender(y.download(), CUDA, address=address, **fields)
            with session.adopt(lender) as held:
                assert (held.shape, held.dtype.str) == ((2, 4), "<f4")
                session.dispatch(PROGRAM, {"a": 1.0, "x": X, "y": held})
                assert lender.returned == 0
            gc.collect()
            assert lender.returned == 1
        with session.adopt(Lender(X, CUDA, address=address, byte_offset=4, shape=(3,))) as part:
            np.testing.assert_array_equal(part.download(), 3 * X[1:4] + 1)
        with session.adopt(y) as own:
            np.testing.assert_array_equal(own.download().reshape(-1), 3 * X + 1)


LENT_REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a negative size": ({"shape": (-8,)}, r"shape \(-8,\)"),
    "a size beyond all memory": ({"shape": (1 << 62,)}, "shape"),
    "a shape beyond the allocation": ({"shape": (999,)}, "its allocation has"),
    "negative axes": ({"ndim": -1}, "-1 axes"),
    "too many axes": ({"ndim": 10_000}, "10000 axes"),
    "strides": ({"shape": (2, 4), "strides": (1, 2)}, "not contiguous"),
    "lanes": ({"lanes": 4}, "4 lanes"),
    "bits": ({"bits": 4}, "4 bits"),
    "bfloat16": ({"code": 4, "bits": 16}, "code 4"),
    "no memory": ({"address": None}, "has no memory"),
    "freed memory": ({"address": 0x10_0000_0000}, "points to 0x1000000000, where the driver knows no memory"),
    "an odd address": ({"byte_offset": 2}, "no multiple"),
    "another device": ({"on": (1, 0)}, "device of type 1, not 2"),
    "a later version": ({"version": (2, 3)}, "version 2.3"),
    "no capsule": ({"returns": "capsule"}, "no capsule"),
}


@pytest.mark.parametrize(("fields", "message"), LENT_REFUSED.values(), ids=LENT_REFUSED)
def test_exports_that_are_not_what_they_say(machine: CudaMachine, fields: dict[str, Any], message: str) -> None:
    with machine.open() as session, session.resident(X) as r:
        given = {"address": r.__cuda_array_interface__["data"][0]} | fields
        lender = Lender(X, CUDA, **given)
        with pytest.raises(InvalidResource, match=message) as caught:
            session.adopt(lender)
        assert "Fix: " in str(caught.value)
        np.testing.assert_array_equal(r.download(), X)


def test_a_capsule_that_was_taken_before(machine: CudaMachine) -> None:
    with machine.open() as session, session.resident(X) as r:
        lender = Lender(X, CUDA, address=r.__cuda_array_interface__["data"][0], twice=True)
        with (
            session.adopt(lender),
            pytest.raises(InvalidResource, match=r"capsule that was taken before.*Fix:"),
        ):
            session.adopt(lender)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": (0xDEAD_0000, False)}, "points to 0xdead0000, where the driver knows no memory of a device"),
        ({"data": (-4, False)}, "malformed"),
        ({"shape": (-1,)}, "malformed"),
        ({"version": 9}, "malformed.*version 9"),
        ({"version": "3"}, "malformed.*version"),
        ({"strides": (4, 4)}, "malformed.*2 strides for 1 axes"),
        ({"typestr": "<f0"}, "malformed"),
    ],
)
def test_a_bad_pointer_is_blamed(machine: CudaMachine, changes: dict[str, Any], message: str) -> None:
    with machine.open() as session, pytest.raises(InvalidResource, match=message) as caught:
        session.adopt(CudaArray(**changes))
    assert "Fix: " in str(caught.value)


def test_exported_device_memory_outlives_its_array(machine: CudaMachine) -> None:
    with machine.open() as session:
        r = session.resident(X)
        part, capsule = r[2:], None
        capsule = part.__dlpack__()
        address = r.__cuda_array_interface__["data"][0]
        part.close()
        r.close()
        others = [session.resident(np.full(8, 9, np.float32)) for _ in range(8)]
        assert address not in {other.__cuda_array_interface__["data"][0] for other in others}
        with session.adopt(Lender(X, CUDA, address=address)) as seen:  # what a consumer of the capsule would see
            np.testing.assert_array_equal(seen.download(), X)
        with pytest.raises(BufferError, match="after close"):
            r.__dlpack__()
        del capsule
        gc.collect()
        taken = [session.resident(np.full(8, 9, np.float32)) for _ in range(8)]
        assert address in {other.__cuda_array_interface__["data"][0] for other in taken}
