"""Resident memory on the reference: bound in place, mixed with host data, and never shared by accident."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import vyre
from support.small_programs import catalog_of, saxpy_program, square_program
from vyre.adapters.discovery import load_catalog
from vyre.domain.errors import DeviceOutOfMemory, InvalidInput, InvalidResource
from vyre.domain.ir.builder import ProgramBuilder
from vyre.ports.backend import Backend
from vyre.testing.fakes import failing, recording

X = np.arange(8, dtype=np.float32)
Y = np.ones(8, dtype=np.float32)
WANT = 2 * X + Y


def reference() -> Backend:
    registration = load_catalog().get("reference-scalar")
    assert registration is not None
    return registration.make()


@pytest.fixture
def session() -> Iterator[vyre.Session]:
    with vyre.open("reference-scalar") as opened:
        yield opened


@pytest.mark.parametrize(
    "array", [X.reshape(2, 4), np.arange(3, dtype=np.uint16), np.array([True, False]), np.zeros(0, np.int32)]
)
def test_upload_and_download_are_inverse(
    session: vyre.Session, array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]
) -> None:
    with session.resident(array) as held:
        back = held.download()
        assert back.dtype == array.dtype
        assert back.shape == array.shape
        np.testing.assert_array_equal(back, array)


def test_functions_of_numpy_read_the_content(session: vyre.Session) -> None:
    with session.resident(X.reshape(2, 4)) as table, session.resident(np.array([True, False])) as truths:
        assert np.asarray(table).dtype == np.float32
        np.testing.assert_array_equal(np.asarray(table), X.reshape(2, 4))
        assert np.sum(table) == 28.0
        np.testing.assert_array_equal(np.add(table[1:], 1), X.reshape(2, 4)[1:] + 1)
        np.testing.assert_array_equal(np.asarray(table, dtype=np.int64), np.arange(8).reshape(2, 4))
        np.testing.assert_array_equal(np.asarray(truths), [True, False])
        with pytest.raises(ValueError, match="read without a copy"):
            np.array(table, copy=False)
    with pytest.raises(InvalidResource):
        np.asarray(table)


def test_a_size_gives_zero_bytes_and_parts_can_be_written(session: vyre.Session) -> None:
    with session.resident(8, label="table") as held:
        assert held.nbytes == 8
        assert held.download().tolist() == [0] * 8
        held.upload(b"\1\2", offset=3)
        assert held.download().tolist() == [0, 0, 0, 1, 2, 0, 0, 0]
        for data, offset in ((b"123", 6), (b"1", -1), (b"123456789", 0)):
            with pytest.raises(InvalidInput, match=r"does not fit.*Fix:"):
                held.upload(data, offset=offset)
        assert "table" in repr(held)


def test_what_is_bound_resident_is_updated_in_place(session: vyre.Session) -> None:
    with session.resident(X) as x, session.resident(Y) as y:
        for _ in range(2):
            result = session.dispatch(saxpy_program(), {"a": 2.0, "x": x, "y": y})
        assert len(result) == 0
        assert result.resident == {"y": y}
        np.testing.assert_array_equal(y.download(), 2 * X + WANT)
        np.testing.assert_array_equal(x.download(), X)


@pytest.mark.parametrize("bound", [{"x"}, {"y"}, set()])
def test_resident_and_host_data_mix(session: vyre.Session, bound: set[str]) -> None:
    with session.resident(X) as x, session.resident(Y) as y:
        inputs = {"a": 2.0, "x": x if "x" in bound else X, "y": y if "y" in bound else Y}
        result = session.dispatch(saxpy_program(), inputs)
        answer = y.download() if "y" in bound else result["y"]
        np.testing.assert_array_equal(answer, WANT)
        positional = session.dispatch(saxpy_program(), [2.0, x, Y])
        np.testing.assert_array_equal(positional["y"], WANT)


def test_outputs_can_be_bound_and_chained(session: vyre.Session) -> None:
    numbers = np.arange(5, dtype=np.uint32)
    with session.resident(20) as first, session.resident(20) as second:
        session.dispatch(square_program(), {"x": numbers, "y": first})
        session.dispatch(square_program(), {"x": first, "y": second})
        np.testing.assert_array_equal(second.download().view(np.uint32), numbers**4)
        np.testing.assert_array_equal(session.dispatch(square_program(), {"x": second})["y"], numbers**8)


def test_a_longer_buffer_than_needed_does_not_change_the_program(session: vyre.Session) -> None:
    with ProgramBuilder("lengths", workgroup=1) as p:
        x = p.input("x", vyre.u32)
        y = p.output("y", vyre.u32, like=x)
        with p.if_(p.global_id() == 0):
            y[0] = y.length
    with session.resident(64) as y_:
        session.dispatch(p.build(), {"x": np.zeros(4, np.uint32), "y": y_})
        assert y_.download().view(np.uint32)[0] == 4


def test_bools_are_words_in_device_memory(session: vyre.Session) -> None:
    with ProgramBuilder("invert", workgroup=1) as p:
        x, y = p.input("x", vyre.bool_), p.inout("y", vyre.bool_)
        y[p.global_id()] = ~x[p.global_id()]
    values = np.array([True, False, True])
    with session.resident(values) as x_, session.resident(values) as y_:
        assert x_.nbytes == 12
        session.dispatch(p.build(), {"x": x_, "y": y_})
        assert y_.download().tolist() == [False, True, False]


def test_words_of_bools_are_no_bytes_of_bools(session: vyre.Session) -> None:
    """Memory made from a bool array holds words, so a buffer of bool8 would read other elements from it."""
    with ProgramBuilder("invert", workgroup=1) as p:
        x = p.input("x", vyre.bool8)
        y = p.output("y", vyre.bool8, like=x)
        y[p.global_id()] = ~x[p.global_id()]
    program, values = p.build(), np.array([True, False, True])
    with (
        session.resident(values) as words,
        pytest.raises(InvalidInput, match=r"`x` holds bool8.*4 bytes.*Fix: .*bool") as error,
    ):
        session.dispatch(program, {"x": words})
    assert "view(numpy.uint8)" in error.value.fix
    with session.resident(values.view(np.uint8)) as raw:
        assert session.dispatch(program, {"x": raw})["y"].tolist() == [False, True, False]
    assert session.dispatch(program, {"x": values})["y"].dtype == np.bool_


def test_one_memory_bound_twice_and_written(session: vyre.Session) -> None:
    with session.resident(X) as both, pytest.raises(InvalidResource, match=r"`x` and `y`.*same memory.*Fix:"):
        session.dispatch(saxpy_program(), {"a": 1.0, "x": both, "y": both})


def test_one_memory_read_twice_is_fine(session: vyre.Session) -> None:
    with ProgramBuilder("add", workgroup=1) as p:
        a, b = p.input("a", vyre.f32), p.input("b", vyre.f32)
        y = p.output("y", vyre.f32, like=a)
        y[p.global_id()] = a[p.global_id()] + b[p.global_id()]
    with session.resident(X) as both:
        np.testing.assert_array_equal(session.dispatch(p.build(), {"a": both, "b": both})["y"], X + X)


def test_misuse(session: vyre.Session) -> None:
    program = saxpy_program()
    with vyre.open("reference-scalar") as other, other.resident(X) as foreign, session.resident(X) as x:
        cases = [
            ({"a": 2.0, "x": foreign, "y": Y}, InvalidResource, "another session"),
            ({"a": x, "x": x, "y": Y}, InvalidInput, "`a` is bound to resident"),
            ({"a": 2.0, "x": x}, InvalidInput, "`y` is missing"),
            ({"a": 2.0, "x": x, "y": Y, "z": Y}, InvalidInput, "`z` is no input"),
        ]
        for inputs, kind, message in cases:
            with pytest.raises(kind, match=message):
                session.dispatch(program, inputs)  # type: ignore[arg-type]
        with session.resident(np.zeros(8, np.int32)) as ints, pytest.raises(InvalidInput, match="holds f32"):
            session.dispatch(program, [2.0, ints, Y])
        with pytest.raises(InvalidInput, match="out and outputs"):
            session.dispatch(program, [2.0, x, Y], out={"y": np.zeros(8, np.float32)})
        with pytest.raises(InvalidInput, match="`y` is bound to a ndarray"):
            session.dispatch(square_program(), {"x": x, "y": Y})
    with pytest.raises(InvalidResource, match="another session"):  # this session has no resident memory left
        session.dispatch(program, [2.0, foreign, Y])
    x.close()
    with pytest.raises(InvalidResource, match="close"):
        session.dispatch(program, [2.0, x, Y])
    with pytest.raises(InvalidResource, match="close"):
        x.download()
    for size in (-1, -(2**70)):
        with pytest.raises(InvalidInput, match="Fix:"):
            session.resident(size)


def test_a_session_closes_what_is_left() -> None:
    with vyre.open("reference-scalar") as session:
        held = session.resident(X)
    assert held.closed


@pytest.mark.parametrize("nth", range(1, 8))
def test_a_fault_at_any_call_leaks_and_changes_nothing(nth: int) -> None:
    error = DeviceOutOfMemory(requested=32, available=0)
    backend, log = recording(reference())
    clean = backend
    with vyre.open(catalog=catalog_of(clean)) as session, session.resident(X) as x:
        session.dispatch(saxpy_program(), {"a": 2.0, "x": x, "y": Y})
    calls = len(log.names)
    broken = failing(reference(), nth, error)
    y = Y.copy()

    def run() -> None:
        with vyre.open(catalog=catalog_of(broken)) as session, session.resident(X) as x:
            session.dispatch(saxpy_program(), {"a": 2.0, "x": x, "y": y})

    if nth > calls:
        run()
    else:
        with pytest.raises(DeviceOutOfMemory):
            run()
    np.testing.assert_array_equal(y, Y)


def test_memory_without_a_resident_executor_is_said_so() -> None:
    backend = replace(reference(), resident_executor=None)
    with (
        vyre.open(catalog=catalog_of(backend)) as session,
        session.resident(X) as x,
        pytest.raises(vyre.UnsupportedFeature, match="dispatch on resident buffers"),
    ):
        session.dispatch(saxpy_program(), [2.0, x, Y])
