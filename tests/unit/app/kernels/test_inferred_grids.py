"""How many lanes a call runs where nobody says so: first kernels, written in their natural form, cover their arrays.

Sizes are beyond a workgroup along each axis in turn, so that a grid that is short of one axis leaves elements out.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest

import vyre
from vyre import GridRule, In, InOut, InvalidConfig, Out, Static, f32, like, u32

Array = npt.NDArray[Any]


# ---------------------------------------------------------------- one lane for each row
@vyre.kernel
def rows(p: In[f32, Literal[2]], q: Out[f32, Literal[2], like("p")]) -> None:
    i = vyre.global_id()
    for c in range(p.shape[1]):
        q[i, c] = p[i, c] + 1


@vyre.kernel
def row_sums(p: In[f32, Literal[2]], q: Out[f32, Literal["p.shape[0]"]]) -> None:
    i = vyre.global_id()
    total = f32(0)
    for c in range(p.shape[1]):
        total += p[i, c]
    q[i] = total


@vyre.kernel
def largest_of_rows(p: In[f32, Literal[2]], q: Out[f32, Literal[2], Literal["p.shape[0], 1"]]) -> None:
    row = vyre.global_id()
    best = p[row, 0]
    for c in range(1, p.shape[1]):
        best = max(best, p[row, c])
    q[row, 0] = best


@vyre.kernel
def softmax(p: In[f32, Literal[2]], q: Out[f32, Literal[2], like("p")]) -> None:
    row = vyre.global_id(0)
    if row < p.shape[0]:
        columns = p.shape[1]
        most = p[row, 0]
        for c in range(columns):
            most = max(most, p[row, c])
        total = f32(0)
        for c in range(columns):
            total += vyre.exp(p[row, c] - most)
        for c in range(columns):
            q[row, c] = vyre.exp(p[row, c] - most) / total


@vyre.kernel
def row_of_a_workgroup(p: In[f32, Literal[2]], q: Out[f32, Literal[2], like("p")]) -> None:
    row = vyre.group_id()
    for c in range(vyre.local_id(), p.shape[1], 256):
        q[row, c] = p[row, c] + 1


@vyre.kernel
def row_of_a_subgroup(p: In[f32, Literal[2]], q: Out[f32, Literal["p.shape[0]"]]) -> None:
    row, lane = vyre.global_id() // 32, vyre.global_id() % 32
    total = f32(0)
    for c in range(lane, p.shape[1], 32):
        total += p[row, c]
    total = vyre.subgroup_add(total)
    if lane == 0:
        q[row] = total


@vyre.kernel
def lengths(points: In[f32, Literal[2]], q: Out[f32, Literal["points.shape[0]"]]) -> None:
    i = vyre.global_id()
    x, y, z = points[i, 0], points[i, 1], points[i, 2]
    q[i] = x * x + y * y + z * z


@vyre.kernel
def moved(points: InOut[f32, Literal[2]]) -> None:
    i = vyre.global_id()
    points[i, 0] += 1
    points[i, 1] += 2
    points[i, 2] += 3


# ---------------------------------------------------------------- one lane for each column
@vyre.kernel
def column_sums(p: In[f32, Literal[2]], q: Out[f32, Literal["p.shape[1]"]]) -> None:
    c = vyre.global_id()
    total = f32(0)
    for r in range(p.shape[0]):
        total += p[r, c]
    q[c] = total


@vyre.kernel
def columns(p: In[f32, Literal[2]], q: Out[f32, Literal[2], like("p")]) -> None:
    j = vyre.global_id()
    for r in range(p.shape[0]):
        q[r, j] = p[r, j] + 1


# ---------------------------------------------------------------- one lane for each element
@vyre.kernel
def rows_along_y(p: In[f32, Literal[2]], q: Out[f32, Literal[2], like("p")]) -> None:
    row, column = vyre.global_id(1), vyre.global_id(0)
    q[row, column] = p[row, column] + 1


@vyre.kernel(workgroup=(16, 16))
def rows_along_x(p: In[f32, Literal[2]], q: Out[f32, Literal[2], like("p")]) -> None:
    i, j = vyre.global_id(0), vyre.global_id(1)
    if i < p.shape[0] and j < p.shape[1]:
        q[i, j] = p[i, j] + 1


@vyre.kernel(workgroup=(8, 8))
def transposed(p: In[f32, Literal[2]], q: Out[f32, Literal[2], Literal["p.shape[1], p.shape[0]"]]) -> None:
    i, j = vyre.global_id(0), vyre.global_id(1)
    q[i, j] = p[j, i]


@vyre.kernel(workgroup=(16, 16))
def tiles(p: In[f32, Literal[2]], q: Out[f32, Literal[2], Literal["p.shape[1], p.shape[0]"]]) -> None:
    tile = vyre.workgroup_array(f32, 256)
    x, y = vyre.local_id(0), vyre.local_id(1)
    tile[y * 16 + x] = p[vyre.group_id(1) * 16 + y, vyre.group_id(0) * 16 + x]
    vyre.barrier()
    q[vyre.group_id(0) * 16 + y, vyre.group_id(1) * 16 + x] = tile[x * 16 + y]


@vyre.kernel(workgroup=(8, 8))
def product(
    a: In[f32, Literal[2]], b: In[f32, Literal[2]], c: Out[f32, Literal[2], Literal["a.shape[0], b.shape[1]"]]
) -> None:
    row, column = vyre.global_id(1), vyre.global_id(0)
    total = f32(0)
    for k in range(a.shape[1]):
        total += a[row, k] * b[k, column]
    c[row, column] = total


@vyre.kernel(workgroup=(16, 4))
def outer(a: In[f32], b: In[f32], q: Out[f32, Literal[2], Literal["len(a), len(b)"]]) -> None:
    i, j = vyre.global_id(0), vyre.global_id(1)
    q[i, j] = a[i] * b[j]


@vyre.kernel(workgroup=(16, 16))
def blurred(p: In[f32, Literal[2]], q: Out[f32, Literal[2], like("p")]) -> None:
    r, c = vyre.global_id(1), vyre.global_id(0)
    if r > 0 and c > 0 and r + 1 < p.shape[0] and c + 1 < p.shape[1]:
        q[r, c] = p[r - 1, c] + p[r + 1, c] + p[r, c - 1] + p[r, c + 1]


@vyre.kernel(workgroup=(8, 8))
def interior(p: In[f32, Literal[2]], q: Out[f32, Literal[2], like("p")]) -> None:
    r, c = vyre.global_id(1) + 1, vyre.global_id(0) + 1
    if r + 1 < p.shape[0] and c + 1 < p.shape[1]:
        q[r, c] = p[r - 1, c] + p[r + 1, c] + p[r, c - 1] + p[r, c + 1]


@vyre.kernel(workgroup=(8, 8))
def halved(p: In[f32, Literal[2]], q: Out[f32, Literal[2], Literal["p.shape[0] // 2, p.shape[1] // 2"]]) -> None:
    r, c = vyre.global_id(1), vyre.global_id(0)
    q[r, c] = p[2 * r, 2 * c] + p[2 * r + 1, 2 * c + 1]


@vyre.kernel(workgroup=(8, 8))
def doubled(p: In[f32, Literal[2]], q: Out[f32, Literal[2], Literal["p.shape[0] * 2, p.shape[1] * 2"]]) -> None:
    r, c = vyre.global_id(1), vyre.global_id(0)
    for dr in range(2):
        for dc in range(2):
            q[2 * r + dr, 2 * c + dc] = p[r, c]


# ---------------------------------------------------------------- planes and channels
@vyre.kernel(workgroup=(8, 8))
def planes(p: In[f32, Literal[3]], q: Out[f32, Literal[3], like("p")]) -> None:
    z, y, x = vyre.global_id(2), vyre.global_id(1), vyre.global_id(0)
    q[z, y, x] = p[z, y, x] + 1


@vyre.kernel(workgroup=(16, 16))
def grey(image: In[f32, Literal[3]], q: Out[f32, Literal[2], Literal["image.shape[0], image.shape[1]"]]) -> None:
    y, x = vyre.global_id(1), vyre.global_id(0)
    q[y, x] = image[y, x, 0] + image[y, x, 1] + image[y, x, 2]


@vyre.kernel(workgroup=(16, 16))
def inverted(image: InOut[f32, Literal[3]]) -> None:
    y, x = vyre.global_id(1), vyre.global_id(0)
    for channel in range(3):
        image[y, x, channel] = 1 - image[y, x, channel]


@vyre.kernel(workgroup=(16, 16))
def interleaved(p: In[f32, Literal[3]], q: Out[f32, Literal[2], Literal["p.shape[0], p.shape[1] * 3"]]) -> None:
    y, x, channel = vyre.global_id(1), vyre.global_id(0), vyre.global_id(2)
    q[y, x * 3 + channel] = p[y, x, channel]


@vyre.kernel
def plane_sums(p: In[f32, Literal[3]], q: Out[f32, Literal["p.shape[0]"]]) -> None:
    k = vyre.global_id()
    total = f32(0)
    for r in range(p.shape[1]):
        for c in range(p.shape[2]):
            total += p[k, r, c]
    q[k] = total


# ---------------------------------------------------------------- one axis over all elements
@vyre.kernel
def by_flat_index(p: In[f32, Literal[2]], q: Out[f32, Literal[2], like("p")]) -> None:
    i = vyre.global_id()
    r, c = i // p.shape[1], i % p.shape[1]
    q[r, c] = p[r, c] + 1


@vyre.kernel
def triples_by_flat_index(p: In[f32, Literal[2]], q: Out[f32, Literal[2], like("p")]) -> None:
    i = vyre.global_id()
    q[i // 3, i % 3] = p[i // 3, i % 3] + 1


@vyre.kernel
def flattened(p: In[f32], width: u32, q: Out[f32, like("p")]) -> None:
    i = vyre.global_id()
    for c in range(width):
        q[i * width + c] = p[i * width + c] + 1


@vyre.kernel
def strided(p: In[f32, Literal[2]], q: InOut[f32, Literal[2]]) -> None:
    k = vyre.global_id()
    while k < p.shape[0]:
        q[k, 0] = p[k, 0] + 1
        k += vyre.num_groups() * 256


@vyre.kernel
def upper(p: In[f32, Literal[2]], q: Out[f32, Literal[2], Literal["p.shape[0], p.shape[0]"]]) -> None:
    i = vyre.global_id()
    for j in range(i, p.shape[0]):
        q[i, j] = p[i, 0] + p[j, 0]
        q[j, i] = q[i, j]


@vyre.kernel
def seen(p: In[u32], q: Out[u32, Literal[64]]) -> None:
    i = vyre.global_id()
    if i < len(p):
        q[p[i]] = 1


@vyre.kernel
def histogram(p: In[u32, Literal[2]], q: Out[u32, Literal[64]]) -> None:
    row, column = vyre.global_id(1), vyre.global_id(0)
    if row < p.shape[0] and column < p.shape[1]:
        q.atomic_add(p[row, column], 1)


@vyre.kernel
def shifted(p: In[f32], q: Out[f32, Literal["len(p) - 1"]]) -> None:
    i = vyre.global_id()
    if 0 < i < len(p):
        q[i - 1] = p[i] - p[i - 1]


@vyre.kernel
def pairs(p: In[f32], q: Out[f32, Literal["len(p) // 2"]]) -> None:
    i = vyre.global_id()
    q[i] = p[2 * i] + p[2 * i + 1]


@vyre.kernel
def powers(n: Static[int], p: In[f32, Literal[2]], q: Out[f32, Literal[2], Literal["p.shape[0], n"]]) -> None:
    i = vyre.global_id()
    for k in vyre.static(range(n)):
        q[i, k] = p[i, 0] * k


def _table(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).integers(0, 64, shape).astype(np.float32)


def _softmax(p: Array) -> Array:
    powers = np.exp(p - p.max(1, keepdims=True))
    return np.asarray(powers / powers.sum(1, keepdims=True))


def _blurred(p: Array) -> Array:
    q = np.zeros_like(p)
    q[1:-1, 1:-1] = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
    return q


def _first_column(p: Array) -> Array:
    q = np.zeros_like(p)
    q[:, 0] = p[:, 0] + 1
    return q


def _seen(p: Array) -> Array:
    return np.isin(np.arange(64), p).astype(np.uint32)


WIDE, TALL, SQUARE, IMAGE = _table(3, 1000), _table(1000, 3), _table(70, 70), _table(70, 90, 3)
BOTH = (WIDE, TALL, SQUARE)
Case = tuple[Any, tuple[Any, ...], Callable[..., Array]]


def _each(kernel: Any, tables: tuple[Array, ...], expected: Callable[[Array], Array]) -> list[Case]:
    return [(kernel, (table,), expected) for table in tables]


def _plus_one(p: Array) -> Array:
    return np.asarray(p + 1)


CASES: list[Case] = [
    *[case for kernel in (rows, row_of_a_workgroup, columns, rows_along_y, rows_along_x, by_flat_index)
      for case in _each(kernel, BOTH, _plus_one)],
    *_each(row_sums, BOTH, lambda p: p.sum(1)),
    *_each(row_of_a_subgroup, BOTH, lambda p: p.sum(1)),
    *_each(largest_of_rows, BOTH, lambda p: p.max(1, keepdims=True)),
    *_each(softmax, (TALL, SQUARE), _softmax),
    *_each(column_sums, BOTH, lambda p: p.sum(0)),
    *_each(transposed, BOTH, lambda p: p.T),
    *_each(tiles, (WIDE, SQUARE), lambda p: p.T),
    *_each(blurred, BOTH, _blurred),
    *_each(interior, BOTH, _blurred),
    *_each(halved, (_table(600, 4), _table(4, 600)), lambda p: p[::2, ::2] + p[1::2, 1::2]),
    *_each(doubled, BOTH, lambda p: p.repeat(2, 0).repeat(2, 1)),
    *_each(planes, (IMAGE, _table(300, 2, 3)), _plus_one),
    *_each(plane_sums, (IMAGE, _table(300, 2, 3)), lambda p: p.sum((1, 2))),
    *_each(grey, (IMAGE, _table(2, 300, 3)), lambda p: p.sum(2)),
    (interleaved, (IMAGE,), lambda p: p.reshape(70, 270)),
    (lengths, (TALL,), lambda p: (p * p).sum(1)),
    (triples_by_flat_index, (TALL,), _plus_one),
    (flattened, (TALL, 3), lambda p, _: _plus_one(p)),
    (product, (_table(70, 5), _table(5, 300)), lambda a, b: a @ b),
    (outer, (_table(700), _table(5)), np.multiply.outer),
    (outer, (_table(5), _table(700)), np.multiply.outer),
    (upper, (_table(300, 1),), lambda p: p + p.T),
    (seen, (np.arange(1000, dtype=np.uint32) // 16,), _seen),
    (histogram, (WIDE.astype(np.uint32),), lambda p: np.bincount(p.ravel(), minlength=64)),
    (histogram, (TALL.astype(np.uint32),), lambda p: np.bincount(p.ravel(), minlength=64)),
    (shifted, (_table(769),), np.diff),
    (pairs, (_table(1200),), lambda p: p[::2] + p[1::2]),
    (powers, (5, TALL), lambda n, p: p[:, :1] * np.arange(n)),
]  # fmt: skip
IN_PLACE: list[Case] = [
    (moved, (TALL,), lambda p: p + np.array([1, 2, 3], np.float32)),
    (inverted, (IMAGE,), lambda p: 1 - p),
]


@pytest.fixture(scope="module", params=["cpu", "reference"])
def session(request: pytest.FixtureRequest) -> Iterator[vyre.Session]:
    with vyre.open(request.param, cache=False) as opened:
        yield opened


def _name(case: Case) -> str:
    return f"{case[0].__name__}-{'x'.join(map(str, np.shape(case[1][-1])))}"


@pytest.mark.parametrize("case", CASES, ids=_name)
def test_a_call_covers_all_that_a_first_kernel_writes(session: vyre.Session, case: Case) -> None:
    kernel, arguments, expected = case
    returned = kernel(*arguments)
    np.testing.assert_allclose(returned, expected(*arguments), rtol=1e-5)


@pytest.mark.parametrize("case", IN_PLACE, ids=_name)
def test_a_call_covers_all_that_a_first_kernel_changes(session: vyre.Session, case: Case) -> None:
    kernel, (table,), expected = case
    changed = table.copy()
    kernel(changed)
    assert np.array_equal(changed, expected(table))


# ---------------------------------------------------------------- what is said, and what is refused
def test_a_result_says_that_the_ids_were_followed(session: vyre.Session) -> None:
    assert session.dispatch(rows, {"p": TALL}).launch.rule is GridRule.REACHED
    found = session.dispatch(rows_along_y, {"p": IMAGE[..., 0].copy()}).launch
    assert (found.extent, found.rule) == ((90, 70), GridRule.REACHED)
    assert session.dispatch(rows.over(1000), {"p": TALL}).launch.rule is GridRule.GIVEN_EXTENT
    assert session.dispatch(by_flat_index, {"p": TALL}).launch.extent == (3000,)
    assert session.dispatch(row_of_a_workgroup, {"p": WIDE}).launch.grid == (3, 1, 1)
    assert session.dispatch(row_of_a_subgroup, {"p": TALL}).launch.extent == (32_000,)


def test_programs_count_what_their_ids_reach_too(session: vyre.Session) -> None:
    numbers = np.arange(1000, dtype=np.uint32) // 16
    for found in (session.dispatch(seen, {"p": numbers}), session.dispatch(seen.program, {"p": numbers})):
        assert np.array_equal(found["q"], _seen(numbers))
        assert (found.launch.extent, found.launch.rule) == ((1000,), GridRule.REACHED)
    flat = session.dispatch(
        rows.program,
        {"p": TALL},
    )
    assert np.array_equal(flat["q"].reshape(1000, 3), TALL + 1)


@vyre.kernel(workgroup=(16, 16))
def by_width(p: In[f32], width: u32, q: Out[f32, like("p")]) -> None:
    x, y = vyre.global_id(0), vyre.global_id(1)
    if x < width:
        q[y * width + x] = p[y * width + x]


@vyre.kernel
def by_width_of_few(p: In[f32], width: u32, q: Out[f32, like("p")]) -> None:
    x, y = vyre.global_id(0), vyre.global_id(1)
    if x < width:
        q[y * width + x] = p[y * width + x]


@vyre.kernel
def strided_rows(p: In[f32, Literal[2]], q: Out[f32, Literal[2], like("p")]) -> None:
    for row in range(vyre.global_id(1), p.shape[0], vyre.num_groups(1)):
        q[row, vyre.global_id(0)] = p[row, vyre.global_id(0)]


@pytest.mark.parametrize("case", [(by_width, (TALL, 3)), (by_width_of_few, (TALL, 3)), (strided_rows, (TALL,))])
def test_a_grid_that_does_not_follow_from_the_indices_is_refused(session: vyre.Session, case: Any) -> None:
    kernel, arguments = case
    with pytest.raises(InvalidConfig, match=r"Fix: (say how many: .*over\(\(width, height\)\)|give grid=)"):
        kernel(*arguments)
    height = 1000
    assert np.array_equal(np.reshape(kernel.over((3, height))(*arguments), TALL.shape), TALL)


# ---------------------------------------------------------------- grids that are given
class Groups(enum.IntEnum):
    FEW = 2


NUMBERS: list[Any] = [2, np.int64(2), np.uint8(2), np.prod([1, 2]), np.array(2), Groups.FEW]


@vyre.kernel(workgroup=4)
def numbered(y: InOut[u32]) -> None:
    y[vyre.global_id()] = vyre.global_id() + 1


@vyre.kernel(workgroup=4)
def opened(y: Out[u32]) -> None:
    y[vyre.global_id()] = vyre.global_id() + 1


@pytest.mark.parametrize("two", NUMBERS, ids=repr)
@pytest.mark.parametrize("backend", ["cpu", "reference", "cuda-machine"])
def test_every_whole_number_is_a_number(backend: str, two: Any) -> None:
    zeros, wanted = np.zeros(12, np.uint32), [1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0]
    with vyre.open(backend, cache=False, max_in_flight=two) as session:
        for keywords in ({"grid": two}, {"grid": (two, 1)}, {"extent": two * 4}, {"extent": (8, two // 2)}):
            assert session.dispatch(numbered.program, {"y": zeros}, **keywords)["y"].tolist() == wanted
        y = zeros.copy()
        numbered[two](y)
        assert y.tolist() == wanted
        numbered.over(two * 4)(y)
        config = vyre.DispatchConfig(
            grid=(two,), workgroup=two * 2, element_count_override=two, max_output_bytes=two * 50
        )
        assert session.dispatch(numbered.program, {"y": zeros}, config)["y"].tolist() == wanted
        assert session.dispatch(opened, {}, output_counts={"y": two})["y"].tolist() == [1, 2]
        with session.resident(zeros) as held, held.view(two, two) as part:
            assert part.shape == (2,)
            assert held.download(offset=two * 4, nbytes=two * 4).tolist() == [0, 0]
            with session.sequence([vyre.Repeat([vyre.Step(numbered[two], {"y": held})], two)]) as work:
                work(two)
            assert held.download().tolist() == wanted


@pytest.mark.parametrize("wrong", [True, np.bool_(True), 2.0, np.float64(2), "2", [2], np.array([2]), -1])
def test_what_is_no_whole_number_is_refused(wrong: Any) -> None:
    for config in ({"grid": wrong}, {"extent": wrong}, {"workgroup": wrong}, {"output_counts": {"y": wrong}}):
        with pytest.raises(InvalidConfig, match="Fix: "):
            vyre.DispatchConfig(**config)
    with pytest.raises(InvalidConfig, match="Fix: "):
        numbered.over(wrong)


@pytest.mark.parametrize("given", [numbered[4, 256], numbered.over((16, 2)), numbered[1, 1, 2]])
def test_workgroups_along_an_axis_that_a_kernel_never_reads_are_refused(session: vyre.Session, given: Any) -> None:
    y = np.zeros(16, np.uint32)
    for call in (lambda: given(y), lambda: session.dispatch(given, {"y": y}), lambda: session.bind(given, {"y": y})):
        with pytest.raises(InvalidConfig, match=r"reads no id along that axis.*write numbered\[.*numbered.over\(n\)"):
            call()
    with pytest.raises(InvalidConfig, match="reads no id along that axis"):
        session.dispatch(numbered, {"y": y}, vyre.DispatchConfig(grid=(4, 256)))
    numbered[4, 1](y)
    assert y.tolist() == list(range(1, 17))


def test_many_more_lanes_than_elements_are_warned_of(session: vyre.Session) -> None:
    table = np.zeros((64, 64), np.float32)
    with pytest.warns(UserWarning, match=r"rows_along_x runs 262144 lanes, and no array has more than 4096 elements"):
        rows_along_x[4, 256](table)
    with pytest.warns(UserWarning, match="numbered runs 4096 lanes"):
        numbered[1024](np.zeros(100, np.uint32))
    rows_along_x[4, 4](table)  # no warning, which would be an error here
    session.dispatch(numbered, {"y": np.zeros(100, np.uint32)}, grid=25)


# ---------------------------------------------------------------- arrays without elements
@vyre.kernel
def copied(x: In[f32], y: InOut[f32]) -> None:
    i = vyre.global_id()
    y[i] = x[i]


@vyre.kernel
def returned(x: In[f32], y: Out[f32, like("x")]) -> None:
    i = vyre.global_id()
    y[i] = x[i]


BASE = np.zeros(8, np.float32)
EMPTY = [BASE[3:3], BASE[8:], BASE[::2][:0], np.empty(0, np.float32)]


@pytest.mark.parametrize("backend", ["cpu", "reference", "cuda-machine"])
def test_empty_views_are_arrays_of_every_kind(backend: str) -> None:
    with vyre.open(backend, cache=False) as opened_session:
        for x in EMPTY:
            for y in EMPTY:
                copied(x, y)
                returned(x, y)
                inputs = {"x": x, "y": y}
                assert opened_session.dispatch(copied, inputs)["y"].shape == (0,)
                assert opened_session.dispatch(returned, {"x": x}, out={"y": y})["y"].shape == (0,)
                assert opened_session.submit(copied, inputs).result()["y"].shape == (0,)
                assert opened_session.bind(copied, inputs)()["y"].shape == (0,)
            with opened_session.resident(x) as held, opened_session.resident(x) as other:
                copied(held, other)
                opened_session.bind_resident(copied, {"x": held, "y": other})()
                opened_session.sequence([vyre.Step(copied, {"x": held, "y": other})])()
        for shape in ((0, 4), (4, 0)):
            assert rows(np.zeros(shape, np.float32)).shape == shape
            rows(np.zeros(shape, np.float32), np.zeros(shape, np.float32)[:])


# ---------------------------------------------------------------- without arguments
@vyre.kernel
def raised_along_y(p: In[f32, Literal[2]], q: Out[f32, Literal[2], like("p")]) -> None:
    row = vyre.global_id(1)
    for c in range(p.shape[1]):
        q[row, c] = p[row, c] + 1


def test_a_pipeline_of_a_kernel_covers_what_it_is_told_or_is_refused() -> None:
    """The grid of a program extends along x; one lane along y would leave out every row but the first."""
    p = np.zeros((40, 30), np.float32)
    with vyre.open("reference") as session:
        session.prepare(raised_along_y)  # it launches nothing
        for compiled in (session.compile, session.specialize, lambda kernel: kernel.compile(session)):
            with pytest.raises(InvalidConfig, match=r"has ids along y, and no arguments that tell .*Fix: give extent"):
                compiled(raised_along_y)
        pipelines = [
            session.compile(raised_along_y, extent=(1, 40)),
            session.compile(raised_along_y.over((1, 40))),
            raised_along_y.compile(session, vyre.DispatchConfig(grid=(1, 40))),
        ]
        for pipeline in pipelines:
            assert pipeline({"p": p})["q"].reshape(p.shape).tolist() == (p + 1).tolist()
        assert session.dispatch(raised_along_y, {"p": p})["q"].tolist() == (p + 1).tolist()
