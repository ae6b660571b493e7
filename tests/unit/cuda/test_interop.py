"""Device memory shared with other libraries."""

from __future__ import annotations

import ctypes
import gc
import weakref
from typing import Any

import numpy as np
import pytest

from support.cuda.scenarios import PROGRAM, X, Y
from vyre import ProgramBuilder, bool8, bool_
from vyre.adapters import dlpack
from vyre.domain.errors import InvalidInput, InvalidResource
from vyre.testing import CudaMachine, cuda_machine


@pytest.fixture
def machine() -> CudaMachine:
    return cuda_machine(export_fake=True)


class Exporter:
    """What another library's array looks like."""

    def __init__(self, **interface: Any) -> None:
        self.__cuda_array_interface__ = {"shape": (96,), "typestr": "<u4", "version": 3, "strides": None} | interface


def test_an_array_of_another_library_is_used_in_place(machine: CudaMachine) -> None:
    with machine.open() as session:
        theirs = session.resident(Y)
        foreign = Exporter(data=theirs.__cuda_array_interface__["data"])
        adopted = session.adopt(foreign)
        assert adopted.dtype == np.uint32 and adopted.shape == (96,)
        out = session.resident(X)
        session.dispatch(PROGRAM, {"k": 3, "x": X, "y": adopted, "out": out})
        assert np.array_equal(theirs.download(), Y + 3 * X)
        held = weakref.ref(foreign)
        del foreign
        gc.collect()
        assert held() is not None, "the array is kept alive while it is adopted"
        adopted.close()
        gc.collect()
        assert held() is None
        assert np.array_equal(theirs.download(), Y + 3 * X), "closing frees nothing that is not ours"


def test_truth_values_of_another_library_are_bytes(machine: CudaMachine) -> None:
    bits = np.arange(96) % 3 == 0
    with ProgramBuilder("invert", workgroup=32) as p:
        x = p.inout("x", bool8, 96)
        x[p.global_id()] = ~x[p.global_id()]
    with ProgramBuilder("invert", workgroup=32) as q:
        words = q.inout("x", bool_, 96)
        words[q.global_id()] = ~words[q.global_id()]
    with machine.open() as session:
        theirs = session.resident(bits.view(np.uint8))
        with session.adopt(Exporter(data=theirs.__cuda_array_interface__["data"], typestr="|b1")) as adopted:
            assert adopted.dtype == np.bool_ and adopted.nbytes == 96
            session.dispatch(p.build(), {"x": adopted})
            assert np.array_equal(adopted.download(), ~bits)
            assert np.array_equal(theirs.download(), ~bits)
            adopted.upload(bits)
            assert np.array_equal(theirs.download(), bits)
            with pytest.raises(InvalidInput, match=r"`x` holds bool, of 4 bytes.*Fix: declare the buffer as bool8"):
                session.dispatch(q.build(), {"x": adopted})


def test_the_interface_describes_the_array(machine: CudaMachine) -> None:
    with machine.open() as session:
        array = session.resident(np.arange(12, dtype=np.float32).reshape(3, 4))
        interface = array.__cuda_array_interface__
        assert interface["shape"] == (3, 4) and interface["typestr"] == "<f4" and interface["version"] == 3
        assert interface["data"][0] % 256 == 0 and interface["strides"] is None and interface["stream"] is None
        assert array.__dlpack_device__() == (2, 0)


@pytest.mark.parametrize("what", ["__cuda_array_interface__", "__dlpack__"])
def test_emulated_addresses_are_not_given_away(what: str) -> None:
    with cuda_machine().open() as session:
        array = session.resident(X)
        with pytest.raises(BufferError, match=r"Fix: .*export_fake=True"):
            found = getattr(array, what)
            found()


def test_a_closed_array_is_not_exported(machine: CudaMachine) -> None:
    with machine.open() as session:
        array = session.resident(X)
        array.close()
        with pytest.raises(BufferError, match="after close"):
            array.__dlpack__()


@pytest.mark.parametrize(
    ("interface", "message"),
    [
        ({"strides": (8,)}, "not contiguous"),
        ({"mask": object()}, "masked"),
        ({"data": None}, "malformed"),
        ({"shape": (10_000,)}, "its allocation has"),
        ({"typestr": "?"}, "malformed"),
    ],
)
def test_what_cannot_be_adopted_is_refused(machine: CudaMachine, interface: dict[str, Any], message: str) -> None:
    with machine.open() as session:
        theirs = session.resident(Y)
        complete = {"data": theirs.__cuda_array_interface__["data"]} | interface
        with pytest.raises(InvalidResource, match=message) as caught:
            session.adopt(Exporter(**complete))
        assert "Fix: " in str(caught.value)


def test_host_arrays_are_refused(machine: CudaMachine) -> None:
    with machine.open() as session, pytest.raises(InvalidResource, match="is on a device of type 1"):
        session.adopt(X)


def test_a_read_only_array_is_not_written(machine: CudaMachine) -> None:
    with machine.open() as session:
        theirs = session.resident(Y)
        address = theirs.__cuda_array_interface__["data"][0]
        adopted = session.adopt(Exporter(data=(address, True)))
        with pytest.raises(InvalidResource, match="read-only"), session.resident(X) as out:
            session.dispatch(PROGRAM, {"k": 3, "x": X, "y": adopted, "out": out})
        with pytest.raises(InvalidResource, match="read-only"):
            adopted.upload(X)


def test_overlapping_memory_is_refused_also_by_parts(machine: CudaMachine) -> None:
    with machine.open() as session:
        theirs = session.resident(np.zeros(200, np.uint32))
        address = theirs.__cuda_array_interface__["data"][0]
        y, out = session.adopt(Exporter(data=(address, False))), session.adopt(Exporter(data=(address + 256, False)))
        with pytest.raises(InvalidResource, match="same memory"):
            session.dispatch(PROGRAM, {"k": 3, "x": X, "y": y, "out": out})


class _Owner:
    pass


def _capsule(owner: object) -> object:
    return dlpack.dlpack_capsule(owner, 0x7F00_0000_0000, (3, 4), "<f4", (2, 1))


def test_a_capsule_that_nobody_takes_frees_its_owner() -> None:
    owner = _Owner()
    held, capsule = weakref.ref(owner), _capsule(owner)
    del owner
    gc.collect()
    assert held() is not None
    del capsule
    gc.collect()
    assert held() is None


def test_a_consumer_keeps_the_owner_until_it_calls_the_deleter() -> None:
    owner = _Owner()
    held, capsule = weakref.ref(owner), _capsule(owner)
    del owner
    managed = ctypes.cast(dlpack._pointer(id(capsule), b"dltensor"), ctypes.POINTER(dlpack._ManagedTensor))
    tensor = managed.contents.dl_tensor
    assert (tensor.data, tensor.ndim, tensor.shape[0], tensor.shape[1]) == (0x7F00_0000_0000, 2, 3, 4)
    assert (tensor.device.device_type, tensor.device.device_id) == (2, 1)
    assert (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes) == (2, 32, 1)
    rename = dlpack._python("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
    rename(capsule, b"used_dltensor")
    del capsule
    gc.collect()
    assert held() is not None
    managed.contents.deleter(managed)
    gc.collect()
    assert held() is None
