"""What each call of the builder records."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import vyre
from vyre import ProgramBuilder, Value, bool_, f32, f64, i8, i32, i64, u8, u32, u64
from vyre.domain.ir.expr import (
    Atomic,
    Binary,
    Bitcast,
    BufferLength,
    Cast,
    Expr,
    Fma,
    IdKind,
    LaunchId,
    Literal,
    Load,
    Select,
    SpecConst,
    SubgroupBallot,
    SubgroupLane,
    SubgroupReduce,
    SubgroupShuffle,
    SubgroupSize,
    Unary,
    Var,
)
from vyre.domain.ir.operators import BINARY, UNARY, AtomicOp, BinaryOp, Ordering, SubgroupOp, UnaryOp
from vyre.domain.ir.program import Access, Buffer, MemoryKind
from vyre.domain.ir.stmt import (
    Assign,
    AsyncLoad,
    AsyncStore,
    AsyncWait,
    Barrier,
    Block,
    Break,
    Continue,
    If,
    Let,
    Loop,
    Region,
    Return,
    Stmt,
    Store,
    Trap,
)
from vyre.domain.ir.types import ScalarType

B, U = BinaryOp, UnaryOp


def lit(value: int | float | bool, dtype: ScalarType = u32) -> Literal:
    return Literal.of(dtype, value)


class Kernel:
    """A builder with a buffer of every type a test may need."""

    def __init__(self) -> None:
        self.p = ProgramBuilder("kernel", workgroup=32)
        self.u = self.p.inout("u", u32)
        self.i = self.p.inout("i", i32)
        self.f = self.p.inout("f", f32)
        self.b = self.p.inout("b", bool_)

    def body(self) -> tuple[Stmt, ...]:
        return self.p.build(check=False).body


@pytest.fixture
def k() -> Kernel:
    return Kernel()


def test_buffers_get_ascending_bindings_in_declaration_order() -> None:
    with ProgramBuilder("memory", workgroup=(8, 4)) as p:
        p.input("x", u8, 10)
        p.workgroup("scratch", f32, 64)
        p.uniform("table", u32, 4)
        p.param("a", f32)
        p.inout("y", i32, output_range=(4, 8))
        p.output("z", u32, like="x")
    program = p.build(check=False)
    assert program.name == "memory"
    assert program.workgroup_size == (8, 4, 1)
    assert program.buffers == (
        Buffer.make("x", 0, Access.READ_ONLY, u8, 10),
        Buffer.make("scratch", 0, Access.WORKGROUP, f32, 64),
        Buffer.make("table", 1, Access.UNIFORM, u32, 4),
        Buffer.make("a", 2, Access.UNIFORM, f32, 1, kind=MemoryKind.PUSH),
        Buffer.make("y", 3, Access.READ_WRITE, i32, output_range=(4, 8)),
        Buffer.make("z", 4, Access.READ_WRITE, u32, is_output=True, like="x"),
    )


def test_like_takes_a_handle() -> None:
    with ProgramBuilder(workgroup=1) as p:
        p.output("z", u32, like=p.input("x", u8))
    assert p.build(check=False).buffer("z").like == "x"


IDS: list[tuple[Callable[[ProgramBuilder], Value], Expr]] = [
    (lambda p: p.global_id(), LaunchId(IdKind.GLOBAL, 0)),
    (lambda p: p.local_id(1), LaunchId(IdKind.LOCAL, 1)),
    (lambda p: p.group_id(2), LaunchId(IdKind.GROUP, 2)),
    (lambda p: p.num_groups(), LaunchId(IdKind.NUM_GROUPS, 0)),
    (lambda p: p.subgroup_lane(), SubgroupLane()),
    (lambda p: p.subgroup_size(), SubgroupSize()),
    (lambda p: p.param("a", f32), Load("a", lit(0))),
    (lambda p: p.spec("n", 4), SpecConst("n", lit(4))),
    (lambda p: p.spec("n", 4.0), SpecConst("n", lit(4.0, f32))),
    (lambda p: p.spec("n", True), SpecConst("n", lit(True, bool_))),
    (lambda p: p.spec("n", i32(-4)), SpecConst("n", lit(-4, i32))),
    (lambda p: p.input("x", i8).length, BufferLength("x")),
    (lambda p: p.input("x", i8)[3], Load("x", lit(3))),
]


@pytest.mark.parametrize(("make", "expected"), IDS)
def test_leaf_expressions(make: Callable[[ProgramBuilder], Value], expected: Expr) -> None:
    assert make(ProgramBuilder(workgroup=1)).expr == expected


@pytest.mark.parametrize("element", list(ScalarType))
def test_elements_load_and_store_as_the_type_they_widen_to(element: ScalarType) -> None:
    p = ProgramBuilder(workgroup=1)
    buffer = p.inout("x", element)
    assert buffer.dtype is element.widened
    assert buffer[0].dtype is element.widened
    buffer[1] = buffer[0]
    assert p.build(check=False).body == (Store("x", lit(1), Load("x", lit(0))),)


U0, I0, F0, B0 = Load("u", lit(0)), Load("i", lit(0)), Load("f", lit(0)), Load("b", lit(0))

OPERATORS: list[tuple[Callable[[Kernel], Value], Expr, ScalarType]] = [
    (lambda k: k.u[0] + 1, Binary(B.ADD, U0, lit(1)), u32),
    (lambda k: 1 + k.u[0], Binary(B.ADD, lit(1), U0), u32),
    (lambda k: k.i[0] - 1, Binary(B.SUB, I0, lit(1, i32)), i32),
    (lambda k: -1 - k.i[0], Binary(B.SUB, lit(-1, i32), I0), i32),
    (lambda k: k.f[0] * 2, Binary(B.MUL, F0, lit(2, f32)), f32),
    (lambda k: 0.1 * k.f[0], Binary(B.MUL, lit(0.1, f32), F0), f32),
    (lambda k: k.f[0] / 2, Binary(B.DIV, F0, lit(2, f32)), f32),
    (lambda k: 1 / k.i[0], Binary(B.DIV, lit(1, i32), I0), i32),
    (lambda k: k.u[0] // 2, Binary(B.DIV, U0, lit(2)), u32),
    (lambda k: 2 // k.u[0], Binary(B.DIV, lit(2), U0), u32),
    (lambda k: k.i[0] % 3, Binary(B.MOD, I0, lit(3, i32)), i32),
    (lambda k: 3 % k.i[0], Binary(B.MOD, lit(3, i32), I0), i32),
    (lambda k: k.u[0] & 3, Binary(B.BIT_AND, U0, lit(3)), u32),
    (lambda k: 3 & k.u[0], Binary(B.BIT_AND, lit(3), U0), u32),
    (lambda k: k.u[0] | 3, Binary(B.BIT_OR, U0, lit(3)), u32),
    (lambda k: 3 | k.u[0], Binary(B.BIT_OR, lit(3), U0), u32),
    (lambda k: k.u[0] ^ 3, Binary(B.BIT_XOR, U0, lit(3)), u32),
    (lambda k: 3 ^ k.u[0], Binary(B.BIT_XOR, lit(3), U0), u32),
    (lambda k: k.i[0] << k.u[0], Binary(B.SHL, I0, U0), i32),
    (lambda k: 1 << k.u[0], Binary(B.SHL, lit(1), U0), u32),
    (lambda k: k.i[0] >> 3, Binary(B.SHR, I0, lit(3, i32)), i32),
    (lambda k: 9 >> k.u[0], Binary(B.SHR, lit(9), U0), u32),
    (lambda k: k.b[0] & True, Binary(B.AND, B0, lit(True, bool_)), bool_),
    (lambda k: k.b[0] | False, Binary(B.OR, B0, lit(False, bool_)), bool_),
    (lambda k: k.b[0] ^ k.b[0], Binary(B.NE, B0, B0), bool_),
    (lambda k: k.f[0] == 1, Binary(B.EQ, F0, lit(1, f32)), bool_),
    (lambda k: k.f[0] != 1, Binary(B.NE, F0, lit(1, f32)), bool_),
    (lambda k: k.u[0] < 1, Binary(B.LT, U0, lit(1)), bool_),
    (lambda k: k.u[0] > 1, Binary(B.GT, U0, lit(1)), bool_),
    (lambda k: k.u[0] <= 1, Binary(B.LE, U0, lit(1)), bool_),
    (lambda k: k.u[0] <= 1, Binary(B.LE, U0, lit(1)), bool_),
    (lambda k: k.u[0] >= 1, Binary(B.GE, U0, lit(1)), bool_),
    (lambda k: -k.i[0], Unary(U.NEGATE, I0), i32),
    (lambda k: ~k.u[0], Unary(U.BIT_NOT, U0), u32),
    (lambda k: ~k.b[0], Unary(U.LOGICAL_NOT, B0), bool_),
    (lambda k: abs(k.i[0]), Unary(U.ABS, I0), i32),
    (lambda k: k.f[0].cast(i64), Cast(i64, F0), i64),
    (lambda k: k.f[0].bitcast(u32), Bitcast(u32, F0), u32),
    (lambda k: vyre.select(k.b[0], k.f[0], 1), Select(B0, F0, lit(1, f32)), f32),
    (lambda k: vyre.select(k.u[0], 1, 0), Select(Cast(bool_, U0), lit(1), lit(0)), u32),
    (lambda k: vyre.fma(2, k.f[0], 0.5), Fma(lit(2, f32), F0, lit(0.5, f32)), f32),
    (lambda k: vyre.min_(3, k.i[0]), Binary(B.MIN, lit(3, i32), I0), i32),
    (lambda k: vyre.rotl(k.u[0], 3), Binary(B.ROTATE_LEFT, U0, lit(3)), u32),
    (lambda k: vyre.subgroup_add(k.f[0]), SubgroupReduce(SubgroupOp.ADD, F0), f32),
    (lambda k: vyre.subgroup_any(k.u[0]), SubgroupReduce(SubgroupOp.ANY, Cast(bool_, U0)), bool_),
    (lambda k: vyre.subgroup_inclusive_max(k.u[0]), SubgroupReduce(SubgroupOp.INCLUSIVE_MAX, U0), u32),
    (lambda k: vyre.subgroup_broadcast(k.f[0], 3), SubgroupShuffle(F0, Literal.of(u32, 3)), f32),
    (lambda k: vyre.subgroup_ballot(k.b[0]), SubgroupBallot(B0), u32),
    (lambda k: vyre.subgroup_ballot(k.u[0]), SubgroupBallot(Cast(bool_, U0)), u32),
    (lambda k: vyre.subgroup_shuffle(k.b[0], 3), SubgroupShuffle(B0, lit(3)), bool_),
]


@pytest.mark.parametrize(("make", "expected", "dtype"), OPERATORS)
def test_operators_and_functions(k: Kernel, make: Callable[[Kernel], Value], expected: Expr, dtype: ScalarType) -> None:
    value = make(k)
    assert (value.expr, value.dtype) == (expected, dtype)


FUNCTION_NAMES = {"absdiff": "abs_diff", "abs": "abs_", "min": "min_", "max": "max_", "round": "round_"}
OPERATOR_ONLY = {U.NEGATE, U.BIT_NOT, U.LOGICAL_NOT}


@pytest.mark.parametrize("op", [op for op in UnaryOp if op not in OPERATOR_ONLY])
def test_every_unary_operator_of_the_table_has_a_function(op: UnaryOp) -> None:
    row = UNARY[op]
    function = getattr(vyre, FUNCTION_NAMES.get(row.text, row.text))
    for dtype in row.operands:
        value = function(dtype(1))
        assert value.expr == Unary(op, lit(1, dtype))
    assert row.meaning in function.__doc__


@pytest.mark.parametrize("op", [op for op in BinaryOp if not BINARY[op].infix])
def test_every_binary_function_of_the_table_exists(op: BinaryOp) -> None:
    row = BINARY[op]
    function = getattr(vyre, FUNCTION_NAMES.get(row.text, row.text))
    for dtype in row.operands:
        assert function(dtype(1), 2).expr == Binary(op, lit(1, dtype), lit(2, dtype))


@pytest.mark.parametrize(
    ("make", "dtype", "bits"),
    [
        (lambda: u32(4), u32, 4),
        (lambda: i32(-1), i32, 0xFFFFFFFF),
        (lambda: u64(1 << 40), u64, 1 << 40),
        (lambda: f32(1), f32, 0x3F800000),
        (lambda: f64(0.1), f64, 0x3FB999999999999A),
        (lambda: f32(float("inf")), f32, 0x7F800000),
        (lambda: bool_(True), bool_, 1),
    ],
)
def test_typed_literals(make: Callable[[], Value], dtype: ScalarType, bits: int) -> None:
    assert make().expr == Literal(dtype, bits)


@pytest.mark.parametrize(("number", "expected"), [(7, lit(7)), (7.0, lit(7, f32)), (True, lit(True, bool_))])
def test_a_number_that_stands_alone(k: Kernel, number: int | float | bool, expected: Literal) -> None:
    k.p.let(number)
    assert k.body() == (Let("t", expected),)


def test_locals_keep_their_names_and_never_hide_another(k: Kernel) -> None:
    first = k.p.let(1, "x")
    second = k.p.var(2, "x")
    k.p.let(3, "u")
    k.p.let(4)
    k.p.let(5)
    second.assign(first)
    assert k.body() == (
        Let("x", lit(1)),
        Let("x_1", lit(2)),
        Let("u_1", lit(3)),
        Let("t", lit(4)),
        Let("t_1", lit(5)),
        Assign("x_1", Var("x")),
    )


IN_PLACE: list[tuple[Callable[[vyre.Variable], object], BinaryOp]] = [
    (lambda v: v.__iadd__(3), B.ADD),
    (lambda v: v.__isub__(3), B.SUB),
    (lambda v: v.__imul__(3), B.MUL),
    (lambda v: v.__itruediv__(3), B.DIV),
    (lambda v: v.__ifloordiv__(3), B.DIV),
    (lambda v: v.__imod__(3), B.MOD),
    (lambda v: v.__iand__(3), B.BIT_AND),
    (lambda v: v.__ior__(3), B.BIT_OR),
    (lambda v: v.__ixor__(3), B.BIT_XOR),
    (lambda v: v.__ilshift__(3), B.SHL),
    (lambda v: v.__irshift__(3), B.SHR),
]


@pytest.mark.parametrize(("update", "op"), IN_PLACE)
def test_in_place_operators_assign(k: Kernel, update: Callable[[vyre.Variable], object], op: BinaryOp) -> None:
    v = k.p.var(1)
    assert update(v) is v
    assert k.body() == (Let("v", lit(1)), Assign("v", Binary(op, Var("v"), lit(3))))


def test_in_place_on_an_element_loads_and_stores(k: Kernel) -> None:
    k.u[3] += 4
    assert k.body() == (Store("u", lit(3), Binary(B.ADD, Load("u", lit(3)), lit(4))),)


def test_if_and_else(k: Kernel) -> None:
    with k.p.if_(k.u[0]):
        k.u[0] = 1
    with k.p.else_(), k.p.if_(True):
        k.p.return_()
    assert k.body() == (If(Cast(bool_, U0), (Store("u", lit(0), lit(1)),), (If(lit(True, bool_), (Return(),)),)),)


def test_loops(k: Kernel) -> None:
    with k.p.for_(1, k.u[0], 2, name="row") as row:
        k.p.continue_()
        k.u[row] = row
    with k.p.for_(0, 3) as n, k.p.if_(n == 1):
        k.p.break_()
    assert k.body() == (
        Loop("row", lit(1), U0, lit(2), (Continue(), Store("u", Var("row"), Var("row")))),
        Loop("k", lit(0), lit(3), lit(1), (If(Binary(B.EQ, Var("k"), lit(1)), (Break(),)),)),
    )


def leave_unless(condition: Expr) -> If:
    return If(Unary(U.LOGICAL_NOT, condition), (Break(),))


def test_while_tests_its_expression_before_each_round(k: Kernel) -> None:
    n = k.p.var(0, "n")
    with k.p.while_(n < 3):
        n += 1
    assert k.body() == (
        Let("n", lit(0)),
        Loop(
            "round",
            lit(0),
            lit(0xFFFFFFFF),
            lit(1),
            (leave_unless(Binary(B.LT, Var("n"), lit(3))), Assign("n", Binary(B.ADD, Var("n"), lit(1)))),
        ),
    )


def test_while_calls_a_function_inside_the_loop(k: Kernel) -> None:
    with k.p.while_(lambda: k.u.atomic_add(0, 1) < 3):
        k.i[0] = 1
    (loop,) = k.body()
    assert isinstance(loop, Loop)
    assert loop.body == (
        Let("old", Atomic(AtomicOp.ADD, "u", lit(0), None, lit(1))),
        leave_unless(Binary(B.LT, Var("old"), lit(3))),
        Store("i", lit(0), lit(1, i32)),
    )


def test_while_true_is_left_by_break(k: Kernel) -> None:
    with k.p.while_(True):
        k.p.break_()
    (loop,) = k.body()
    assert isinstance(loop, Loop)
    assert loop.body == (leave_unless(lit(True, bool_)), Break())


ATOMICS: list[tuple[Callable[[Kernel], Value], Atomic]] = [
    (lambda k: k.u.atomic_add(1, 2), Atomic(AtomicOp.ADD, "u", lit(1), None, lit(2))),
    (lambda k: k.u.atomic_or(1, 2), Atomic(AtomicOp.OR, "u", lit(1), None, lit(2))),
    (lambda k: k.u.atomic_and(1, 2), Atomic(AtomicOp.AND, "u", lit(1), None, lit(2))),
    (lambda k: k.u.atomic_xor(1, 2), Atomic(AtomicOp.XOR, "u", lit(1), None, lit(2))),
    (lambda k: k.i.atomic_min(1, -2), Atomic(AtomicOp.MIN, "i", lit(1), None, lit(-2, i32))),
    (lambda k: k.i.atomic_max(1, -2), Atomic(AtomicOp.MAX, "i", lit(1), None, lit(-2, i32))),
    (lambda k: k.u.atomic_exchange(1, 2), Atomic(AtomicOp.EXCHANGE, "u", lit(1), None, lit(2))),
    (lambda k: k.u.atomic_fetch_nand(1, 2), Atomic(AtomicOp.FETCH_NAND, "u", lit(1), None, lit(2))),
    (
        lambda k: k.u.atomic_compare_exchange(1, 2, 3),
        Atomic(AtomicOp.COMPARE_EXCHANGE, "u", lit(1), lit(2), lit(3)),
    ),
    (
        lambda k: k.u.atomic_add(1, 2, ordering=Ordering.RELAXED),
        Atomic(AtomicOp.ADD, "u", lit(1), None, lit(2), Ordering.RELAXED),
    ),
]


@pytest.mark.parametrize(("act", "expected"), ATOMICS)
def test_an_atomic_acts_where_it_is_called(k: Kernel, act: Callable[[Kernel], Value], expected: Atomic) -> None:
    old = act(k)
    k.f[0] = 1.0
    assert k.body() == (Let("old", expected), Store("f", lit(0), lit(1, f32)))
    assert old.expr == Var("old")
    assert old.dtype is (i32 if expected.buffer == "i" else u32)


def test_atomics_in_one_expression_keep_the_order_of_the_calls(k: Kernel) -> None:
    k.i[0] = (k.u.atomic_add(0, 1) - k.u.atomic_or(0, 2)).cast(i32)
    first, second, store = k.body()
    assert isinstance(first, Let) and isinstance(first.value, Atomic) and first.value.op is AtomicOp.ADD
    assert isinstance(second, Let) and isinstance(second.value, Atomic) and second.value.op is AtomicOp.OR
    assert store == Store("i", lit(0), Cast(i32, Binary(B.SUB, Var("old"), Var("old_1"))))


def test_scopes_synchronisation_and_copies(k: Kernel) -> None:
    with k.p.region("outer"), k.p.block():
        k.p.barrier()
    k.p.barrier(Ordering.ACQ_REL)
    k.p.grid_sync()
    k.p.async_load(k.u, k.i, offset=4, size=8, tag="a")
    k.p.async_store(k.u, k.f, offset=0, size=k.u[0], tag="b")
    k.p.async_wait("a")
    k.p.trap(k.u[0], "oops")
    assert k.body() == (
        Region("outer", (Block((Barrier(),)),)),
        Barrier(Ordering.ACQ_REL),
        Barrier(Ordering.GRID_SYNC),
        AsyncLoad("u", "i", lit(4), lit(8), "a"),
        AsyncStore("u", "f", lit(0), U0, "b"),
        AsyncWait("a"),
        Trap(U0, "oops"),
    )


def test_a_python_function_is_a_new_operation(k: Kernel) -> None:
    def clamp(x: Value, low: float, high: float) -> Value:
        return vyre.min_(vyre.max_(x, low), high)

    k.f[0] = clamp(k.f[0], 0.0, 1.0)
    inner = Binary(B.MAX, F0, lit(0, f32))
    assert k.body() == (Store("f", lit(0), Binary(B.MIN, inner, lit(1, f32))),)
