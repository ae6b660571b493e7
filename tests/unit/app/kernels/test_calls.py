"""Calls of kernels: what is written in place, what is returned, and what is refused."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import vyre
from support.small_programs import catalog_of
from vyre import In, InOut, Out, bool_, f32, i32, like, u32
from vyre.adapters.discovery import load_catalog
from vyre.domain.errors import BackendError, BuildError, InvalidInput, UnfitArguments
from vyre.testing.fakes import failing


@vyre.kernel
def saxpy(a: f32, x: In[f32], y: InOut[f32]) -> None:
    i = vyre.global_id()
    if i < len(x):
        y[i] = a * x[i] + y[i]


@vyre.kernel
def doubled(x: In[f32], y: Out[f32, like("x")]) -> None:
    i = vyre.global_id()
    if i < len(x):
        y[i] = x[i] * 2


@vyre.kernel
def swapped(x: InOut[f32], y: InOut[f32]) -> None:
    i = vyre.global_id()
    if i < len(x):
        kept = x[i]
        x[i] = y[i]
        y[i] = kept


@vyre.kernel
def reversed_into(x: In[f32], y: InOut[f32]) -> None:
    i = vyre.global_id()
    if i < len(x):
        y[i] = x[len(x) - 1 - i]


@vyre.kernel
def trapping(y: InOut[f32], at: u32) -> None:
    i = vyre.global_id()
    y[i] = 7.0
    if i == at:
        vyre.trap(i, "found")


@vyre.kernel(workgroup=(8, 8))
def transposed(x: In[f32, 2], y: Out[f32, "x.shape[1], x.shape[0]"]) -> None:  # noqa: F821, UP037
    r, c = vyre.global_id(1), vyre.global_id(0)
    y[r, c] = x[c, r]


@vyre.kernel
def flags(x: In[bool_], y: InOut[bool_]) -> None:
    i = vyre.global_id()
    if i < len(x):
        y[i] = y[i] and not x[i]


@pytest.fixture(params=["reference", "cpu"])
def session(request: pytest.FixtureRequest) -> Iterator[vyre.Session]:
    with vyre.open(backend=request.param) as opened:
        yield opened


def numbers(count: int = 6, start: float = 0.0) -> npt.NDArray[np.float32]:
    return np.arange(count, dtype=np.float32) + np.float32(start)


@pytest.mark.parametrize("a", [2.0, 2, np.float32(2), np.float64(2), np.int8(2), np.array(2)])
def test_arrays_are_written_in_place_and_numbers_are_of_python_or_numpy(session: vyre.Session, a: Any) -> None:
    x, y = numbers(), numbers(start=10)
    for _ in range(3):  # the first call plans
        before = y.copy()
        assert saxpy(a, x, y) is None
        assert y.tolist() == (2 * x + before).tolist()
    assert x.tolist() == numbers().tolist()


def test_arguments_may_be_given_by_name(session: vyre.Session) -> None:
    y = numbers()
    saxpy(y=y, a=1.0, x=numbers())
    assert y.tolist() == (numbers() * 2).tolist()


@pytest.mark.parametrize("shape", [(6,), (2, 3), (1, 6, 1), (0,), (3, 0)])
def test_an_output_that_is_left_out_is_returned_in_the_shape_of_its_model(
    session: vyre.Session, shape: tuple[int, ...]
) -> None:
    x = numbers(int(np.prod(shape))).reshape(shape)
    for found in (doubled(x), doubled(x, None), doubled(x=x)):
        assert found.tolist() == (x * 2).tolist()
        assert found.shape == shape
    given = np.empty(shape, np.float32)
    assert doubled(x, given) is None
    assert given.tolist() == (x * 2).tolist()


def test_results_reach_their_arrays_in_any_order_of_parameters(session: vyre.Session) -> None:
    @vyre.kernel
    def split(negative: Out[f32, like("x")], n: u32, x: InOut[f32], count: Out[u32, (1,)], y: In[f32]) -> None:
        i = vyre.global_id()
        if i < len(x):
            negative[i] = -x[i]
            x[i] = x[i] + y[i] * f32(n)
        if i == 0:
            count[0] = len(x)

    for _ in range(3):
        negative, x, count = np.ones(6, np.float32), numbers(), np.zeros(1, np.uint32)
        assert split(negative, 2, x, count, numbers()) is None
        assert negative.tolist() == (-numbers()).tolist()
        assert x.tolist() == (3 * numbers()).tolist()
        assert count.tolist() == [6]
        x = numbers()
        negative, count = split(None, 2, x, None, numbers())
        assert negative.tolist() == (-numbers()).tolist()
        assert count.tolist() == [6]
        with pytest.raises(vyre.InvalidInput, match="`negative`"):
            split(np.ones(5, np.float32), 2, x, count, numbers())


def test_arrays_of_two_axes_have_a_lane_for_each_element(session: vyre.Session) -> None:
    x = numbers(35).reshape(5, 7)
    assert transposed(x).tolist() == x.T.tolist()
    assert transposed(x[:3]).tolist() == x[:3].T.tolist()
    y = np.empty((7, 5), np.float32)
    transposed(x, y)
    assert y.tolist() == x.T.tolist()
    assert transposed(np.empty((0, 4), np.float32)).shape == (4, 0)


@pytest.mark.parametrize("step", ["view", "odd", "same", "overlap", "bytes"])
def test_what_shares_memory_is_read_as_it_was_before_the_call(session: vyre.Session, step: str) -> None:
    held = numbers(9)
    y = held[:8] if step != "odd" else held[1:]
    x: Any = {"same": y, "overlap": held[1:], "bytes": memoryview(y)}.get(step, numbers(8, 3))
    expected = np.asarray(x)[::-1].tolist()
    for _ in range(2):
        held[:] = numbers(9)
        reversed_into(x, y)
        assert y.tolist() == expected


def test_two_arrays_that_are_written_share_no_memory(session: vyre.Session) -> None:
    held = numbers(6)
    for first, second in ((held, held), (held[:4], held[2:]), (held.reshape(2, 3), held)):
        with pytest.raises(vyre.InvalidResource, match=r"`x` and `y` of swapped share memory.*Fix: "):
            swapped(first, second)
    assert held.tolist() == numbers(6).tolist()
    swapped(held[:3], held[3:])
    assert held.tolist() == [3, 4, 5, 0, 1, 2]


def test_a_call_that_traps_leaves_its_arrays_as_they_were(session: vyre.Session) -> None:
    y = numbers()
    with pytest.raises(vyre.TrapError):
        trapping(y, 3)
    assert y.tolist() == numbers().tolist()
    trapping(y, 300)
    assert y.tolist() == [7.0] * 6


def test_truth_values_are_written_to_arrays_of_numpy(session: vyre.Session) -> None:
    x, y = np.array([True, False, False]), np.array([True, True, False])
    flags(x, y)
    assert y.tolist() == [False, True, False]


def test_truth_values_select_what_is_written(session: vyre.Session) -> None:
    @vyre.kernel
    def masked(mask: In[bool_], y: InOut[f32]) -> None:
        i = vyre.global_id()
        if i < len(y) and mask[i]:
            y[i] = 9.0

    for mask in (np.array([True, False, True]), np.array([1, 0, 7], np.uint32)):
        y = numbers(3)
        masked(mask, y)
        assert y.tolist() == [9, 1, 9]


def _big(x: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
    return x.astype(">f4")


def _frozen(x: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
    y = x.copy()
    y.flags.writeable = False
    return y


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda y: y.astype(np.float64), "float64"),
        (_big, ">f4"),
        (_frozen, "read-only"),
        (lambda y: np.repeat(y, 2)[::2], "not C-contiguous"),
        (lambda y: y.tolist(), "a list"),
        (lambda y: bytearray(y.tobytes()), "a bytearray"),
        (lambda y: np.ma.masked_array(y), "masked"),
        (lambda y: y.astype(object), "Python objects"),
        (lambda y: 3.0, "a float"),
    ],
)
def test_arrays_that_cannot_be_written_are_refused(session: vyre.Session, wrong: Any, message: str) -> None:
    for x, y in ((numbers(), wrong(numbers())), (numbers(), wrong(numbers()))):
        with pytest.raises(vyre.InvalidInput, match=r"`y` of saxpy .*Fix: ") as caught:
            saxpy(2.0, x, y)
        assert message in str(caught.value)
        saxpy(2.0, x, numbers())  # the next call finds a plan


def test_an_output_of_another_size_is_refused(session: vyre.Session) -> None:
    for _ in range(2):
        with pytest.raises(vyre.InvalidInput, match=r"`y`.*Fix: "):
            doubled(numbers(4), numbers(5))
        doubled(numbers(4), numbers(4))
    with pytest.raises(vyre.InvalidInput, match=r"`y` of transposed has the shape \(5, 7\).*\(7, 5\)"):
        transposed(numbers(35).reshape(5, 7), np.empty((5, 7), np.float32))
    with pytest.raises(vyre.InvalidInput, match="`x` of transposed has 2 axes, got an ndarray with 1"):
        transposed(numbers(4))


@pytest.mark.parametrize(
    ("given", "named", "message"),
    [
        ((2.0,), {}, "got nothing for `x`. Fix: give x, y"),
        ((2.0, numbers()), {}, "got nothing for `y`"),
        ((2.0, numbers(), None), {}, "got nothing for `y`"),
        ((2.0, numbers(), numbers(), 3), {}, "takes 3 arguments, got 4"),
        ((2.0, numbers()), {"x": numbers(), "y": numbers()}, "got `x` twice"),
        ((2.0, numbers()), {"z": numbers()}, "has no parameter `z`"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(
    session: vyre.Session, given: tuple[Any, ...], named: dict[str, Any], message: str
) -> None:
    for _ in range(2):
        with pytest.raises(TypeError, match=message) as caught:
            saxpy(*given, **named)
        assert isinstance(caught.value, vyre.VyreError)
        saxpy(2.0, numbers(), numbers())


def test_a_missing_argument_is_named_at_the_line_of_the_call_also_where_a_plan_is_known(session: vyre.Session) -> None:
    cases: tuple[tuple[Any, str], ...] = (
        ((None, numbers(), numbers()), "a"),
        ((2.0, None, numbers()), "x"),
        ((2.0, numbers(), None), "y"),
    )
    for wrong, missing in cases:
        for _ in range(2):
            with pytest.raises(UnfitArguments, match=f"got nothing for `{missing}`") as caught:
                saxpy(*wrong)
            assert caught.value.loc is not None and caught.value.loc.file == __file__
            saxpy(2.0, numbers(), numbers())


def test_a_grid_counts_workgroups_and_an_extent_lanes(session: vyre.Session) -> None:
    @vyre.kernel(workgroup=4)
    def touched(y: InOut[i32]) -> None:
        y[vyre.global_id()] = 1

    for launched, count in ((touched[2], 8), (touched[3,], 12), (touched.over(5), 8), (touched, 16)):
        y = np.zeros(16, np.int32)
        launched(y)
        assert y.tolist() == [1] * count + [0] * (16 - count)


def test_workgroups_of_two_axes_cover_an_array_that_is_only_read(session: vyre.Session) -> None:
    @vyre.kernel(workgroup=(4, 4))
    def total(x: In[i32, 2], y: Out[i32, 1]) -> None:
        y.atomic_add(0, x[vyre.global_id(1), vyre.global_id(0)])

    x = np.arange(11 * 7, dtype=np.int32).reshape(11, 7)
    assert total(x).tolist() == [x.sum()]
    assert session.dispatch(total, {"x": x})["y"].tolist() == [x.sum()]
    assert total[1, 1](x).tolist() == [x[:4, :4].sum()]


@pytest.mark.parametrize("grid", [-1, True, 1.5, "2", (1, 2, 3, 4), (), None, [2]])
def test_a_grid_of_another_kind_is_refused(grid: Any) -> None:
    with pytest.raises(vyre.InvalidConfig, match="Fix: "):
        saxpy[0]
    with pytest.raises(vyre.InvalidConfig, match="Fix: "):
        saxpy[grid]
    with pytest.raises(vyre.InvalidConfig, match="Fix: "):
        saxpy.over(grid)


def test_an_output_without_a_declared_size_must_be_passed(session: vyre.Session) -> None:
    @vyre.kernel
    def counted(y: Out[u32]) -> None:
        y[vyre.global_id()] = vyre.global_id()

    with pytest.raises(vyre.InvalidInput, match="`y` of counted is not given, and its size is not declared"):
        counted()
    for count in (3, 5, 3):
        y = np.full(count, 9, np.uint32)
        counted(y)
        assert y.tolist() == list(range(count))


def test_resident_arrays_stand_for_arrays(session: vyre.Session) -> None:
    with session.resident(numbers()) as x, session.resident(numbers(start=1)) as y:
        saxpy(2.0, x, y)
        assert y.download().tolist() == (numbers() * 3 + 1).tolist()
        host = numbers()
        saxpy(2.0, x, host)
        assert host.tolist() == (numbers() * 3).tolist()
        assert doubled(x).tolist() == (numbers() * 2).tolist()
        doubled(x, y)
        assert y.download().tolist() == (numbers() * 2).tolist()
        with vyre.open(backend=session.backend):
            for arguments in ((2.0, numbers(), y), (2.0, x, numbers())):
                with pytest.raises(vyre.InvalidResource, match=r"another session.*Fix: "):
                    saxpy(*arguments)


def test_arrays_of_other_shapes_need_no_other_code() -> None:
    found = []
    with vyre.open(backend="cpu") as opened:
        for shape in ((3, 5), (4, 9), (17, 2), (1, 33)):
            table = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
            assert np.array_equal(transposed(table), table.T)
            found.append(tuple(opened.metrics()[name] for name in ("emits", "compiles", "stored_loads")))
    assert any(found[0])
    assert found[1:] == found[:1] * 3


@pytest.mark.parametrize(
    "wrong",
    [np.zeros((3, 4)), [1.0, 2.0], None, np.zeros(8, np.float32)[::2], object(), 3.0],
    ids=["of another type", "a list", "nothing", "with gaps", "an object", "a number"],
)
def test_a_refused_argument_is_one_error(wrong: Any) -> None:
    x = np.zeros(4, np.float32)
    with vyre.open("reference", cache=False), pytest.raises((InvalidInput, UnfitArguments)) as caught:
        saxpy(2.0, x, wrong)
    assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_a_compile_error_of_a_backend_is_one_error() -> None:
    registration = load_catalog().get("reference")
    assert registration is not None
    catalog = catalog_of(failing(registration.make(), 1, prefix="compiler."))
    with vyre.open("auto", catalog=catalog, cache=False) as session, pytest.raises(BackendError) as caught:
        session.compile(saxpy)
    assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_signatures_read_as_they_are_written() -> None:
    assert str(inspect.signature(saxpy, eval_str=True)) == "(a: f32, x: In[f32], y: InOut[f32]) -> None"
    assert str(inspect.signature(doubled, eval_str=True)) == '(x: In[f32], y: Out[f32, like("x")]) -> None'


def test_the_size_of_workgroups_is_refused_at_the_decorator() -> None:
    with pytest.raises(BuildError, match=r"^[^:]*test_calls\.py:\d+: workgroup=0 is no workgroup size"):
        vyre.kernel(workgroup=0)
