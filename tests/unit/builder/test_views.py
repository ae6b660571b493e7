"""Views of a buffer as rows and planes: the index that they compute, checked against the rule itself, and misuse."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pytest

import vyre
from vyre import BuildError, ProgramBuilder, ScalarType, Value, f32, i32, i64, u32, u64
from vyre.domain.errors import UnsupportedUse
from vyre.domain.ir.expr import Atomic, Binary, Cast, Expr, Literal, Load, Select
from vyre.domain.ir.operators import AtomicOp, BinaryOp
from vyre.domain.ir.stmt import Let, Store
from vyre.ir import Access, EventBuilder, MemoryKind, view_index, walk

OUTSIDE: Final = (1 << 64) - 1
TYPES: Final = (u32, i32, u64, i64)
PAIRS: Final = [*itertools.product(TYPES, repeat=2)]
EDGES: Final[dict[ScalarType, tuple[int, ...]]] = {
    u32: (0, 1, 2, 3, 5, (1 << 31) - 1, 1 << 31, (1 << 32) - 1),
    i32: (0, 1, 2, 4, (1 << 31) - 1, -1, -2, -(1 << 31)),
    u64: (0, 1, 2, 3, (1 << 32) - 1, 1 << 32, 1 << 62, 1 << 63, OUTSIDE),
    i64: (0, 2, 5, (1 << 32) - 1, 1 << 32, 1 << 62, (1 << 63) - 1, -1, -3, -(1 << 63)),
}
"""Coordinates at which the index could wrap, in each type."""
SIZES: Final = (1, 2, 3, 1 << 16, 1 << 31, (1 << 32) - 1)


def expected(coordinates: Sequence[int], sizes: Sequence[int], length: int) -> int | None:
    """The rule: the position of the element, or None where a coordinate is outside."""
    *outer, x = coordinates
    *heights, width = sizes
    if not 0 <= x < width or any(c < 0 for c in outer) or (heights and outer[1] >= heights[0]):
        return None
    row = outer[0] * heights[0] + outer[1] if heights else outer[0]
    at = row * width + x
    return at if at < length else None


def evaluated(expr: Expr, parameters: dict[str, tuple[ScalarType, int]]) -> int:
    """The value of an expression of a view over parameters, modulo 2^64 where its operators are."""
    match expr:
        case Literal(value=value):
            return int(value)
        case Load(buffer=name):
            return parameters[name][1]
        case Cast(dtype=ScalarType.U64, operand=operand):
            return evaluated(operand, parameters) % (1 << 64)
        case Select():
            chosen = expr.on_true if evaluated(expr.condition, parameters) else expr.on_false
            return evaluated(chosen, parameters)
        case Binary(op=op, left=left, right=right):
            a, b = evaluated(left, parameters), evaluated(right, parameters)
            match op:
                case BinaryOp.ADD:
                    return (a + b) % (1 << 64)
                case BinaryOp.MUL:
                    return (a * b) % (1 << 64)
                case BinaryOp.LT:
                    return a < b
                case BinaryOp.LE:
                    return a <= b
                case BinaryOp.AND:
                    return a and b
    raise NotImplementedError(expr)


LENGTHS: Final = (1, 7, (1 << 32) - 1)


def check(expr: Expr, coordinates: Sequence[int], sizes: Sequence[int], parameters: dict[str, Any]) -> None:
    at = evaluated(expr, parameters)
    for length in LENGTHS:
        found = at if at < length else None
        assert found == expected(coordinates, sizes, length), (coordinates, sizes, length, expr)


def indexed(types: Sequence[ScalarType], sizes: Sequence[int | None]) -> Expr:
    """The index of a view for coordinates a, b, c and sizes s, t: parameters, or literals where a number is given."""
    p = ProgramBuilder("view", workgroup=1)
    x = p.inout("x", f32)
    coordinates: Any = tuple(p.param(name, dtype) for name, dtype in zip("abc", types, strict=False))
    given = [p.param(name, u32) if size is None else size for name, size in zip("st", sizes, strict=False)]
    m: Any = p.view2d(x, *given) if len(types) == 2 else p.view3d(x, *given)
    load = m[coordinates].expr
    assert isinstance(load, Load)
    m[coordinates] = 1.0
    (store,) = p.build().body
    assert isinstance(store, Store) and store.index == load.index
    return load.index


@pytest.mark.parametrize("types", PAIRS, ids=str)
def test_the_index_of_two_coordinates_is_that_of_the_rule(types: tuple[ScalarType, ScalarType]) -> None:
    by_value = indexed(types, [None])
    for size in SIZES:
        by_literal = indexed(types, [size])
        for coordinates in itertools.product(*(EDGES[t] for t in types)):
            known = dict(zip("abs", zip((*types, u32), (*coordinates, size), strict=True), strict=True))
            check(by_value, coordinates, [size], known)
            check(by_literal, coordinates, [size], known)


@pytest.mark.parametrize("types", PAIRS, ids=str)
def test_the_index_of_three_coordinates_is_that_of_the_rule(types: tuple[ScalarType, ScalarType]) -> None:
    three = (*types, u32)
    by_value = indexed(three, [None, None])
    for sizes in itertools.product((1, 3, 1 << 31, (1 << 32) - 1), (1, 2, (1 << 32) - 1)):
        by_literal = indexed(three, sizes)
        for outer in itertools.product(*(EDGES[t] for t in types)):
            for x in (0, 1, 2):
                coordinates = (*outer, x)
                known = dict(zip("abcst", zip((*three, u32, u32), (*coordinates, *sizes), strict=True), strict=True))
                check(by_value, coordinates, sizes, known)
                check(by_literal, coordinates, sizes, known)


def test_the_index_of_numbers_is_a_number() -> None:
    p = ProgramBuilder("view", workgroup=1)
    x = p.input("x", f32)
    for sizes in ((3,), (2, 3)):
        m: Any = p.view2d(x, *sizes) if len(sizes) == 1 else p.view3d(x, *sizes)
        edges = (0, 1, 2, 3, (1 << 31) - 1, (1 << 32) - 1)
        for coordinates in itertools.product(edges, repeat=len(sizes) + 1):
            index = m[coordinates].expr.index
            assert isinstance(index, Literal)
            check(index, coordinates, sizes, {})
    assert m[np.int64(1), np.uint8(1), 2].expr == m[1, 1, 2].expr


@pytest.mark.parametrize(
    ("fixed", "count"),
    [((0, None, 1), 1), ((1, None, None), 2), ((None, 1, 1), 1), ((None, 5, 1), 0), ((None, 1, 9), 0)],
)
def test_known_checks_are_left_out(fixed: tuple[int | None, ...], count: int) -> None:
    """Only what can be outside is compared, and what certainly is outside needs no arithmetic."""
    p = ProgramBuilder("view", workgroup=1)
    m = p.view3d(p.input("x", f32), 4, 8)
    given = [p.param(name, u32) if at is None else at for name, at in zip("abc", fixed, strict=True)]
    index = m[given[0], given[1], given[2]].expr.index  # type: ignore[union-attr]
    compared = [node for node in walk(index) if isinstance(node, Binary) and node.op in (BinaryOp.LT, BinaryOp.LE)]
    assert len(compared) == count
    assert isinstance(index, Literal) == (count == 0)


def test_rows_of_u32_are_not_checked_twice() -> None:
    p = ProgramBuilder("view", workgroup=1)
    m = p.view2d(p.input("x", f32), 8)
    n, i = p.param("n", u32), p.param("i", i32)
    assert len([node for node in walk(m[n, n].expr) if isinstance(node, Binary)]) == 3  # x < width, y * width + x
    assert len([node for node in walk(m[i, n].expr) if isinstance(node, Binary)]) == 5  # and row <= 2^32 - 1


def test_the_index_of_nodes_is_that_of_the_rule() -> None:
    def parameter(name: str) -> Load:
        return Load(name, Literal.of(u32, 0))

    for types in PAIRS:
        two = view_index(parameter("a"), parameter("b"), sizes=(parameter("s"),))
        three = view_index(parameter("a"), parameter("b"), Literal.of(i32, 1), sizes=(parameter("s"), parameter("s")))
        for size in (1, 3, (1 << 32) - 1):
            for coordinates in itertools.product(*(EDGES[t] for t in types)):
                known = dict(zip("abs", zip((*types, u32), (*coordinates, size), strict=True), strict=True))
                check(two, coordinates, [size], known)
                check(three, (*coordinates, 1), [size, size], known)
    assert view_index(Literal.of(i32, -1), Literal.of(u32, 0), sizes=(Literal.of(u32, 3),)) == Literal.of(u64, OUTSIDE)
    for wrong in (((parameter("a"),), ()), ((parameter("a"),) * 2, (parameter("s"),) * 2), ((parameter("a"),) * 4, ())):
        with pytest.raises(ValueError, match=r"make no index\. Fix: "):
            view_index(*wrong[0], sizes=wrong[1])


def test_events_and_calls_index_alike() -> None:
    p = ProgramBuilder("view", workgroup=1)
    m = p.view2d(p.inout("x", f32), 5)
    m[p.param("y", i32), p.param("z", u32)] = 1.0
    b = EventBuilder("view", workgroup=1)
    b.buffer("x", f32, Access.READ_WRITE)
    b.buffer("y", i32, Access.UNIFORM, 1, kind=MemoryKind.PUSH)
    b.buffer("z", u32, Access.UNIFORM, 1, kind=MemoryKind.PUSH)
    zero = Literal.of(u32, 0)
    index = view_index(Load("y", zero), Load("z", zero), sizes=(Literal.of(u32, 5),))
    b.store("x", index, Literal.of(f32, 1.0))
    assert b.build() == p.build()


def test_an_atomic_of_a_view_is_that_of_its_buffer() -> None:
    p = ProgramBuilder("view", workgroup=1)
    x = p.inout("x", u32)
    m, cube = p.view2d(x, 5), p.view3d(x, 2, 5)
    assert m.atomic_add((1, 2), 3).dtype is u32
    cube.atomic_compare_exchange((1, 0, 2), 4, 5)
    first, second = p.build().body
    assert first == Let("old", Atomic(AtomicOp.ADD, "x", Literal.of(u64, 7), None, Literal.of(u32, 3)))
    assert isinstance(second, Let) and isinstance(second.value, Atomic)
    assert (second.value.index, second.value.expected) == (Literal.of(u64, 12), Literal.of(u32, 4))
    with pytest.raises(BuildError, match="f32, on which there are no atomics"):
        p2 = ProgramBuilder("view", workgroup=1)
        p2.view2d(p2.inout("x", f32), 5).atomic_add((0, 0), 1.0)


@pytest.mark.parametrize("length", [1, 4, 5, 6, 29, 30, 31])
def test_the_shape_counts_what_exists(length: int) -> None:
    with ProgramBuilder("shape", workgroup=1) as p:
        x, y = p.input("x", f32), p.inout("y", u32, 5)
        w, h = p.param("w", u32), p.param("h", u32)
        flat, cube = p.view2d(x, w), p.view3d(x, h, 5)
        for at, size in enumerate((*flat.shape, *cube.shape)):
            y[at] = size
    with vyre.open("reference") as session:
        inputs: dict[str, Any] = {"x": np.ones(length, np.float32), "y": np.zeros(5, np.uint32), "w": 5, "h": 3}
        found = session.dispatch(p.build(), inputs, grid=1)["y"]
    rows = -(-length // 5)
    assert found.tolist() == [rows, 5, -(-rows // 3), 3, 5]


def test_a_view_reads_what_its_buffer_reads() -> None:
    p = ProgramBuilder("view", workgroup=1)
    x = p.inout("x", u32)
    m = p.view2d(x, 5)
    old = m[1, 2]
    x[0] = 1
    with pytest.raises(BuildError, match="this value reads buffer `x`"):
        x[1] = old
    assert (m.name, m.dtype, repr(m)) == ("x", u32, "<view of buffer `x` by [y, x]>")
    assert m.length.expr == x.length.expr


def test_a_width_that_has_changed_is_refused() -> None:
    p = ProgramBuilder("view", workgroup=1)
    x, sizes = p.inout("x", u32), p.inout("sizes", u32)
    m = p.view2d(x, sizes[0])
    m[0, 0] = 1
    sizes[0] = 2
    with pytest.raises(BuildError, match="this value reads buffer `sizes`"):
        m[0, 1] = 1


@pytest.mark.parametrize("backend", ["reference", "reference-scalar"])
def test_a_stencil_over_a_view_stays_in_its_row(backend: str) -> None:
    """Sums of neighbours in an image whose last row is partial, against NumPy with zeros around the image."""
    height, width, length = 5, 7, 32
    image = np.arange(1, length + 1, dtype=np.uint32)
    with ProgramBuilder("stencil", workgroup=(8, 8)) as p:
        x, y = p.input("x", u32), p.output("y", u32, like="x")
        source, target = p.view2d(x, width), p.view2d(y, p.param("width", u32))
        at, row = p.global_id(0).cast(i32), p.global_id(1).cast(i64)
        target[row, at] = sum((source[row + dy, at + dx] for dy in (-1, 0, 1) for dx in (-1, 0, 1)), start=u32(0))
    with vyre.open(backend) as session:
        found = session.dispatch(p.build(), {"x": image, "width": width}, extent=(width + 3, height + 3))["y"]
    padded = np.zeros((height + 2, width + 2), np.uint32)
    for index, value in enumerate(image):
        padded[1 + index // width, 1 + index % width] = value
    sums = sum(padded[dy : dy + height, dx : dx + width] for dy in range(3) for dx in range(3))
    assert found.tolist() == np.asarray(sums).ravel()[:length].tolist()


def test_private_memory_is_viewed_like_any_other() -> None:
    p = ProgramBuilder("view", workgroup=1)
    m = p.view2d(p.array("a", f32, 12), 4)
    m[1, 2] = 1.0
    assert p.build().body == (Store("a", Literal.of(u64, 6), Literal.of(f32, 1.0)),)


class Kernel:
    def __init__(self) -> None:
        self.p = ProgramBuilder("view", workgroup=1)
        self.x, self.y = self.p.input("x", f32), self.p.inout("y", f32)
        self.n, self.a = self.p.param("n", u32), self.p.param("a", f32)
        self.m, self.c = self.p.view2d(self.y, 5), self.p.view3d(self.y, 2, 5)


MISUSE: list[tuple[Callable[[Any], object], str]] = [
    (lambda k: k.p.view2d(k.x, 0), "the width of a view of buffer `x` is 0"),
    (lambda k: k.p.view2d(k.x, u32(0)), "the width of a view of buffer `x` is 0"),
    (lambda k: k.p.view2d(k.x, -5), "the width of a view of buffer `x` is -5"),
    (lambda k: k.p.view2d(k.x, np.int64(1 << 32)), "is 4294967296. Fix: give a number of elements in 1..2^32-1"),
    (lambda k: k.p.view2d(k.x, 5.0), "the width of a view of buffer `x` must be u32: 5.0 is no integer"),
    (lambda k: k.p.view2d(k.x, i32(5)), "the width of a view of buffer `x` must be u32, not i32"),
    (lambda k: k.p.view3d(k.x, 0, 5), "the height of a view of buffer `x` is 0"),
    (lambda k: k.p.view3d(k.x, 5, k.a), "the width of a view of buffer `x` must be u32, not f32"),
    (lambda k: k.p.view2d(k.m, 5), "is viewed. Fix: give a buffer"),
    (lambda k: k.p.view2d(k.n, 5), "is viewed. Fix: give a buffer"),
    (lambda k: k.p.view2d(Kernel().x, 5), "belongs to another program"),
    (lambda k: k.m[k.a, 0], "the coordinate y of a view of buffer `y` must be an integer, not f32"),
    (lambda k: k.m[0, 1.5], "the coordinate x of a view of buffer `y` must be u32: 1.5 is no integer"),
    (lambda k: k.m[0, -1], "the coordinate x of a view of buffer `y` is -1, and views are not counted from their end"),
    (lambda k: k.c[np.int32(-1), 0, 0], "the coordinate z of a view of buffer `y` is -1"),
    (lambda k: k.m[0, 1 << 32], "4294967296 does not fit u32"),
    (lambda k: k.m[0, True], "True is a bool"),
    (lambda k: k.p.view2d(k.x, 5).__setitem__((0, 0), 1.0), "buffer `x` is read-only"),
    (lambda k: k.m.__setitem__((0, 0), k.n), "what is stored to buffer `y` must be f32, not u32"),
    (lambda k: k.a + k.m, "a view is used where one element is needed: `m`. Fix: index it: m[y, x]"),
    (lambda k: k.p.let(k.c), "index it: m[z, y, x]"),
]
UNSUPPORTED: list[tuple[Callable[[Any], object], str]] = [
    (lambda k: k.m[1], "a view of buffer `y` has 2 coordinates, and 1 is given. Fix: write m[y, x]"),
    (lambda k: k.m[k.n], "has 2 coordinates, and 1 is given"),
    (lambda k: k.m[1, 2, 3], "has 2 coordinates, and 3 is given"),
    (lambda k: k.c[1, 2], "a view of buffer `y` has 3 coordinates, and 2 is given. Fix: write m[z, y, x]"),
    (lambda k: k.m[1, :], "and a slice is given"),
    (lambda k: k.m[:], "and a slice is given"),
    (lambda k: list(k.m), "a view cannot be iterated over"),
    (lambda k: len(k.m), "len() cannot take"),
    (lambda k: k.m.atomic_add(0, 1.0), "has 2 coordinates"),
]


@pytest.mark.parametrize(("misuse", "message"), [*MISUSE, *UNSUPPORTED])
def test_misuse_of_a_view(misuse: Callable[[Any], object], message: str) -> None:
    with pytest.raises(BuildError) as caught:
        misuse(Kernel())
    assert message in str(caught.value) and "Fix: " in str(caught.value)
    assert caught.value.loc is not None and caught.value.loc.file == __file__
    assert isinstance(caught.value, UnsupportedUse) == ((misuse, message) in UNSUPPORTED)


def test_a_coordinate_is_a_value_like_any_other() -> None:
    k = Kernel()
    made: Value | None = None
    with k.p.if_(k.n > 1):
        made = k.m[k.n + 1, 0]
    with pytest.raises(BuildError, match=r"made inside the p\.if_ block"):
        k.p.let(made)
