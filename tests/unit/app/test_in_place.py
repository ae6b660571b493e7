"""``out`` with the very array that is the input of an ``inout``: it is updated in place."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import vyre
from support.small_programs import saxpy_program
from vyre import ProgramBuilder, u32
from vyre.domain.errors import InvalidInput, InvalidResource, TrapError

X = np.arange(64, dtype=np.float32)
PROGRAM = saxpy_program()


@pytest.fixture(params=["reference", "reference-scalar", "cpu", "cuda-machine"])
def session(request: pytest.FixtureRequest) -> Iterator[vyre.Session]:
    with vyre.open(request.param, cache=False) as opened:
        yield opened


def trapping() -> vyre.Program:
    """Adds 1 to each element of ``y`` in turn, and stops at the element that is 5."""
    with ProgramBuilder("trapping", workgroup=1) as p:
        y = p.inout("y", u32)
        with p.if_(p.global_id() == 0), p.for_(0, y.length) as k:
            with p.if_(y[k] == 5):
                p.trap(k, "five")
            y[k] = y[k] + 1
    return p.build()


def test_the_array_is_updated_and_is_the_result(session: vyre.Session) -> None:
    y = np.ones((8, 8), np.float32)
    for _ in range(3):  # a backend may replay what it ran before
        result = session.dispatch(PROGRAM, {"a": 2.0, "x": X, "y": y}, out={"y": y})
        assert result["y"] is y
    np.testing.assert_array_equal(y.reshape(-1), 6 * X + 1)
    np.testing.assert_array_equal(X, np.arange(64, dtype=np.float32))


def test_other_objects_over_all_of_the_memory(session: vyre.Session) -> None:
    memory = np.ones(65, np.float32)
    y = memory[1:]  # not aligned for words of 8 bytes
    for given, target in ((y, y.view()), (y.reshape(8, 8), y), (memoryview(y), y)):  # type: ignore[arg-type]
        y[...] = 1
        result = session.dispatch(PROGRAM, [2.0, X, given], out={"y": target})
        assert result["y"] is target
        np.testing.assert_array_equal(y, 2 * X + 1)
    assert memory[0] == 1


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_nothing_is_allocated(backend: str) -> None:
    """The arrays of NumPy are among what ``tracemalloc`` counts."""
    x, y = np.ones(1 << 18, np.float32), np.zeros(1 << 18, np.float32)
    with vyre.open(backend, cache=False) as session:

        def peak(**keywords: Any) -> int:
            inputs: dict[str, Any] = {"a": 2.0, "x": x, "y": y}
            for _ in range(3):
                session.dispatch(PROGRAM, inputs, **keywords)
            tracemalloc.start()
            try:
                session.dispatch(PROGRAM, inputs, **keywords)
                return tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()

        into_another, in_place = peak(out={"y": np.empty_like(y)}), peak(out={"y": y})
    most = 32_768 if backend == "cpu" else 1.1 * y.nbytes  # the reference has memory for its chunks
    assert max(into_another, in_place) < most


@pytest.mark.parametrize("backend", ["cpu", "reference", "cuda-machine"])
@pytest.mark.parametrize("skipped", [0, 1, 2, 3])
def test_arrays_of_any_place_take_results(backend: str, skipped: int) -> None:
    """Those that are aligned for words are written by the run, the others get a copy."""
    x, y, memory = np.arange(8, dtype=np.float32), np.ones(8, np.float32), np.full(16, 7, np.float32)
    with vyre.open(backend, cache=False) as session:
        out = memory[skipped : skipped + 8]
        result = session.dispatch(PROGRAM, {"a": 2.0, "x": x, "y": y}, out={"y": out})
    assert result["y"] is out and out.tolist() == (2 * x + y).tolist() and y.tolist() == [1] * 8
    assert memory[:skipped].tolist() == [7] * skipped and memory[skipped + 8 :].tolist() == [7] * (8 - skipped)


def test_pipelines_and_bound_launches_update_in_place(session: vyre.Session) -> None:
    y = np.ones(64, np.float32)
    pipeline = session.compile(PROGRAM)
    assert pipeline([2.0, X, y], out={"y": y})["y"] is y
    bound = session.bind(PROGRAM, [2.0, X, y])
    assert bound(out={"y": y})["y"] is y
    np.testing.assert_array_equal(y, 4 * X + 1)
    special = session.specialize(PROGRAM)
    assert special([2.0, X, y], out={"y": y})["y"] is y
    np.testing.assert_array_equal(y, 6 * X + 1)


def test_other_outputs_are_copied_where_the_run_has_succeeded(session: vyre.Session) -> None:
    with ProgramBuilder("two", workgroup=8) as p:
        y, z = p.inout("y", u32), p.output("z", u32, like="y")
        i = p.global_id()
        with p.if_(i < y.length):
            z[i] = y[i]
            y[i] = y[i] * 2
    one, two, new = (np.arange(16, dtype=np.uint32) for _ in range(3))
    result = session.dispatch(p.build(), [one], out={"y": one, "z": two})
    np.testing.assert_array_equal(two, new)
    np.testing.assert_array_equal(one, 2 * new)
    result = session.dispatch(p.build(), [one], out={"y": one})
    np.testing.assert_array_equal(result["z"], 2 * new)
    np.testing.assert_array_equal(one, 4 * new)


def test_truth_values_become_words_and_are_copied_back(session: vyre.Session) -> None:
    with ProgramBuilder("invert", workgroup=8) as p:
        y = p.inout("y", vyre.bool_)
        i = p.global_id()
        with p.if_(i < y.length):
            y[i] = ~y[i]
    truths = np.arange(12) % 3 == 0
    want = ~truths
    assert session.dispatch(p.build(), [truths], out={"y": truths})["y"] is truths
    np.testing.assert_array_equal(truths, want)


def test_an_error_says_that_the_contents_are_unspecified(session: vyre.Session) -> None:
    y = np.array([1, 2, 3, 5, 4], np.uint32)
    with pytest.raises(TrapError) as caught:
        session.dispatch(trapping(), [y], out={"y": y})
    notes = [note for note in caught.value.__notes__ if "in place" in note]
    assert len(notes) == 1 and "`y`" in notes[0] and "unspecified" in notes[0] and "Fix:" in notes[0]
    y = np.array([1, 2, 3, 5, 4], np.uint32)
    with pytest.raises(TrapError) as caught:
        session.dispatch(trapping(), [y], out={"y": np.empty_like(y)})
    assert not [note for note in caught.value.__notes__ if "in place" in note]
    assert y.tolist() == [1, 2, 3, 5, 4]


def test_an_error_before_the_run_leaves_the_array_and_says_nothing(session: vyre.Session) -> None:
    with ProgramBuilder("part", workgroup=8) as p:
        y, z = p.inout("y", u32), p.output("z", u32, 3)
        y[p.global_id()] = 7
        z[0] = 1
    one = np.arange(8, dtype=np.uint32)
    with pytest.raises(InvalidInput, match="`z` has 4 elements") as caught:
        session.dispatch(p.build(), [one], out={"y": one, "z": np.zeros(4, np.uint32)})
    assert not [note for note in getattr(caught.value, "__notes__", ()) if "in place" in note]
    assert one.tolist() == list(range(8))


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_what_overlaps_in_part_or_with_another_buffer_is_refused(backend: str) -> None:
    memory = np.arange(80, dtype=np.float32)
    y = memory[:64]
    cases: list[tuple[Any, Any, str]] = [
        ((2.0, X, y), memory[1:65], "a part of the memory of input `y`"),
        ((2.0, X, y), memory[:63], "a part of the memory of input `y`"),
        ((2.0, X, y), memory, "a part of the memory of input `y`"),
        ((2.0, y, X), y, "memory with input `x`"),
        ((2.0, y, y), y, "memory with input `x`"),
        ((2.0, memory[8:72], y), y, "memory with input `x`"),
    ]
    with vyre.open(backend, cache=False) as session:
        for inputs, target, message in cases:
            with pytest.raises(InvalidResource, match=f"out `y` shares {message}.*Fix:"):
                session.dispatch(PROGRAM, inputs, out={"y": target})
        with ProgramBuilder("two", workgroup=8) as p:
            one, two = p.inout("one", vyre.f32), p.inout("two", vyre.f32)
            one[p.global_id()] = two[p.global_id()]
        with pytest.raises(InvalidResource, match="shares"):
            session.dispatch(p.build(), [y, y], out={"one": y, "two": y})
        frozen = y.copy()
        frozen.flags.writeable = False
        with pytest.raises(InvalidInput, match="read-only"):
            session.dispatch(PROGRAM, [2.0, X, frozen], out={"y": frozen})
    np.testing.assert_array_equal(memory, np.arange(80, dtype=np.float32))


def test_an_array_over_other_memory_is_written_where_it_lies(session: vyre.Session) -> None:
    """Arrays that own their memory, views of others, and parts of them: all are compared by the bytes they cover."""
    memory = np.zeros(130, np.float32)
    program = scaled()
    with_part, whole = memory[65:129], np.empty(64, np.float32)
    for x, target in ((X[:64], whole), (X[:64], with_part), (memory[:64], with_part), (bytes(X[:64]), whole)):
        target[:] = -1
        result = session.dispatch(program, {"a": 2.0, "x": x}, out={"y": target})
        assert result["y"] is target
        np.testing.assert_array_equal(target, 2 * np.frombuffer(x, np.float32))
    part: Any = memoryview(memory)[60:124]  # type: ignore[arg-type]
    shared: list[tuple[Any, Any]] = [(whole, whole), (memory[:64], memory[63:127]), (part, memory[:64])]
    for x, target in shared:
        before = memory.copy(), whole.copy()
        with pytest.raises(InvalidResource, match="out `y` shares memory with input `x`"):
            session.dispatch(program, {"a": 2.0, "x": x}, out={"y": target})
        np.testing.assert_array_equal(memory, before[0])
        np.testing.assert_array_equal(whole, before[1])


def scaled() -> vyre.Program:
    with ProgramBuilder("scaled", workgroup=8) as p:
        a, x = p.param("a", vyre.f32), p.input("x", vyre.f32)
        y = p.output("y", vyre.f32, like="x")
        i = p.global_id()
        with p.if_(i < y.length):
            y[i] = a * x[i]
    return p.build()
