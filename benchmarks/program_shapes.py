"""Programs of a wanted number of nodes, in the shapes that compilers write and in those that are hard to compile.

A node is a statement or an expression; a shared expression counts at every use.  Each shape fills one kind of program
up to the wanted number and no further, with lanes of one axis and the output ``y``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from vyre import Program, ProgramBuilder, u32
from vyre.ir import (
    Access,
    Atomic,
    AtomicOp,
    Binary,
    BinaryOp,
    EventBuilder,
    Expr,
    IdKind,
    LaunchId,
    Literal,
    Load,
    Ordering,
    ScalarType,
    Select,
    Var,
)

LANES: Final = 64
ELEMENTS: Final = 256
"""The number of elements of each buffer."""
_U32: Final = ScalarType.U32
_LANE: Final = LaunchId(IdKind.GLOBAL, 0)


def _number(value: int) -> Literal:
    return Literal(_U32, value & 0xFFFF_FFFF)


def _binary(op: BinaryOp, left: Expr, right: Expr) -> Binary:
    return Binary(op, left, right)


def _add(left: Expr, right: Expr) -> Binary:
    return Binary(BinaryOp.ADD, left, right)


def _events(name: str) -> EventBuilder:
    b = EventBuilder(name, workgroup=LANES)
    b.buffer("x", _U32, Access.READ_ONLY, ELEMENTS)
    b.buffer("y", _U32, Access.READ_WRITE, ELEMENTS)
    return b


def lets(nodes: int) -> Program:
    """A straight line of locals, each of which follows from the one before."""
    b = _events("lets")
    b.let("v0", _LANE)
    count = (nodes - 5) // 6
    for i in range(1, count + 1):
        b.let(f"v{i}", _add(_binary(BinaryOp.MUL, Var(f"v{i - 1}"), _number(i)), _LANE))
    b.store("y", _LANE, Var(f"v{count}"))
    return b.build(check=False)


def stores(nodes: int) -> Program:
    """Stores at literal indices."""
    b = _events("stores")
    for i in range(nodes // 5):
        b.store("y", _number(i % ELEMENTS), _add(_number(i % ELEMENTS), _number(3)))
    return b.build(check=False)


def copies(nodes: int) -> Program:
    """Loads and stores at literal indices of two buffers, whose neighbours can be merged."""
    b = _events("copies")
    for i in range(nodes // 4):
        b.store("y", _number(i % ELEMENTS), Load("x", _number(i % ELEMENTS)))
    return b.build(check=False)


def ifs(nodes: int) -> Program:
    """Small conditions side by side, about which lanes disagree."""
    b = _events("ifs")
    for i in range(nodes // 7):
        b.if_(_binary(BinaryOp.LT, _LANE, _number(i % LANES)))
        b.store("y", _LANE, _number(i))
        b.close()
    return b.build(check=False)


def choices(nodes: int) -> Program:
    """Conditions with two branches that assign one local."""
    b = _events("choices")
    b.let("a", _LANE)
    for i in range((nodes - 5) // 11):
        b.if_(_binary(BinaryOp.LT, Var("a"), _number(i)))
        b.assign("a", _add(Var("a"), _number(3)))
        b.else_()
        b.assign("a", _number(i & 31))
        b.close()
    b.store("y", _LANE, Var("a"))
    return b.build(check=False)


def guards(nodes: int) -> Program:
    """Conditions that end lanes."""
    b = _events("guards")
    for i in range((nodes - 4) // 6):
        b.if_(_binary(BinaryOp.EQ, Load("x", _LANE), _number(i + 1000)))
        b.return_()
        b.close()
    b.store("y", _LANE, _LANE)
    return b.build(check=False)


def reduction(nodes: int) -> Program:
    """One local that every statement changes."""
    b = _events("reduction")
    b.let("a", _LANE)
    for i in range((nodes - 5) // 5):
        b.assign("a", _binary(BinaryOp.BIT_XOR, Var("a"), Load("x", _number(i % ELEMENTS))))
    b.store("y", _LANE, Var("a"))
    return b.build(check=False)


def loops(nodes: int) -> Program:
    """Short loops side by side."""
    b = _events("loops")
    b.let("a", _LANE)
    for i in range((nodes - 5) // 8):
        b.for_(f"k{i}", _number(0), _number(2), _number(1))
        b.assign("a", _add(Var("a"), Var(f"k{i}")))
        b.close()
    b.store("y", _LANE, Var("a"))
    return b.build(check=False)


def nested(nodes: int) -> Program:
    """Towers of nested loops and conditions, 60 bodies high."""
    b = _events("nested")
    b.let("a", _LANE)
    for _ in range(max(1, (nodes - 5) // 360)):
        for level in range(30):
            b.for_(f"k{level}", _number(0), _number(1), _number(1))
            b.if_(_binary(BinaryOp.LE, Var(f"k{level}"), _number(level)))
            b.assign("a", _add(Var("a"), _number(level)))
        for _ in range(60):
            b.close()
    b.store("y", _LANE, Var("a"))
    return b.build(check=False)


def scopes(nodes: int) -> Program:
    """Half the nodes are locals that stay visible, the others bodies with a local of their own."""
    b = _events("scopes")
    half = nodes // 2
    for i in range(half // 3):
        b.let(f"v{i}", _binary(BinaryOp.BIT_OR, _LANE, _number(i)) if i % 2 else _LANE)
    for i in range(half // 9):
        b.if_(_binary(BinaryOp.LT, _LANE, _number(i % LANES)))
        b.let("t", Var(f"v{i}"))
        b.store("y", _LANE, Var("t"))
        b.close()
    return b.build(check=False)


def deep(nodes: int) -> Program:
    """Expressions of the largest legal depth."""
    b = _events("deep")
    for i in range(nodes // 259):
        value: Expr = _LANE
        for level in range(128):
            value = _add(value, _number(i + level))
        b.store("y", _LANE, value)
    return b.build(check=False)


def shared(nodes: int) -> Program:
    """Expressions all of whose operands are shared: 7 objects that are 255 nodes written out."""
    b = _events("shared")
    for i in range(nodes // 257):
        value: Expr = _add(_LANE, _number(i))
        for _ in range(6):
            value = _add(value, value)
        b.store("y", _LANE, value)
    return b.build(check=False)


def selects(nodes: int) -> Program:
    """Values chosen by conditions, as branch-free code has them."""
    b = _events("selects")
    b.let("v0", _LANE)
    count = (nodes - 5) // 9
    for i in range(1, count + 1):
        condition = _binary(BinaryOp.LT, Var(f"v{i - 1}"), _number(i))
        b.let(f"v{i}", Select(condition, _number(i), _add(Var(f"v{i - 1}"), _LANE)))
    b.store("y", _LANE, Var(f"v{count}"))
    return b.build(check=False)


def atomics(nodes: int) -> Program:
    """Atomics and plain accesses to the same buffers, with a barrier between them and conditions around them."""
    b = _events("atomics")
    names = [f"t{i}" for i in range(max(1, min(nodes // 600, 200)))]
    for name in names:
        b.buffer(name, _U32, Access.WORKGROUP, 32)
    for i in range(nodes // 14):
        name = names[i % len(names)]
        b.let(f"o{i}", Atomic(AtomicOp.ADD, name, _number(i & 31), None, _number(1), Ordering.RELAXED))
        b.barrier()
        b.if_(_binary(BinaryOp.LT, _LANE, _number(32)))
        b.store("y", _LANE, Load(name, _number(i & 31)))
        b.close()
        b.barrier()
    return b.build(check=False)


def tiles(nodes: int) -> Program:
    """Workgroup memory that is filled, shared and read again, in many buffers."""
    b = _events("tiles")
    names = [f"t{i}" for i in range(max(1, min(nodes // 600, 100)))]
    for name in names:
        b.buffer(name, _U32, Access.WORKGROUP, LANES)
    for i in range(nodes // 13):
        name = names[i % len(names)]
        b.store(name, LaunchId(IdKind.LOCAL, 0), _add(_LANE, _number(i)))
        b.barrier()
        b.block()
        b.store("y", _LANE, Load(name, _number(i % LANES)))
        b.close()
        b.barrier()
    return b.build(check=False)


def transfers(nodes: int) -> Program:
    """Asynchronous copies, each of them pending while a condition is passed."""
    b = _events("transfers")
    b.buffer("t", _U32, Access.WORKGROUP, LANES)
    for i in range(nodes // 12):
        b.async_load("x", "t", offset=_number(0), size=_number(16), tag=f"c{i}")
        b.if_(_binary(BinaryOp.LT, _LANE, _number(i % LANES)))
        b.store("y", _LANE, _number(i))
        b.close()
        b.async_wait(f"c{i}")
    return b.build(check=False)


def breaks(nodes: int) -> Program:
    """A loop that changes many locals, and that lanes may leave after each change."""
    b = _events("breaks")
    count = (nodes - 10) // 17
    for i in range(count):
        b.let(f"v{i}", _number(0))
    b.for_("k", _number(0), _number(2))
    for i in range(count):
        b.assign(f"v{i}", Var("k"))
        b.if_(_binary(BinaryOp.GT, Load("x", _LANE), _number(i + 1000)))
        b.break_()
        b.close()
        b.if_(_binary(BinaryOp.GT, Load("x", _LANE), _number(i + 1000)))
        b.continue_()
        b.close()
    b.close()
    b.store("y", _LANE, _LANE)
    return b.build(check=False)


def counters(nodes: int) -> Program:
    """Many counters in workgroup memory that are raised and then read, and conditions beside them."""
    b = _events("counters")
    count = min(nodes // 40, 10_000)
    for i in range(count):
        b.buffer(f"t{i}", _U32, Access.WORKGROUP, 1)
    for i in range(count):
        b.let(f"o{i}", Atomic(AtomicOp.ADD, f"t{i}", _number(0), None, _number(1), Ordering.RELAXED))
    b.barrier()
    for i in range(count):
        b.let(f"q{i}", Load(f"t{i}", _number(0)))
    for i in range((nodes - 7 * count - 1) // 7):
        b.if_(_binary(BinaryOp.LT, _LANE, _number(i % LANES)))
        b.store("y", _LANE, _LANE)
        b.close()
    return b.build(check=False)


def gathers(nodes: int) -> Program:
    """Loads at indices that were loaded, and stores in between."""
    b = _events("gathers")
    for i in range(nodes // 9):
        b.let(f"i{i}", Load("x", _number(i % ELEMENTS)))
        b.let(f"j{i}", Load("x", Var(f"i{i}")))
        b.store("y", _LANE, Var(f"j{i}"))
    return b.build(check=False)


def pending(nodes: int) -> Program:
    """Many asynchronous copies that are all pending while conditions are passed."""
    b = _events("pending")
    b.buffer("t", _U32, Access.WORKGROUP, LANES)
    count = nodes // 11
    for i in range(count):
        b.async_load("x", "t", offset=_number(0), size=_number(16), tag=f"c{i}")
    for i in range(count):
        b.if_(_binary(BinaryOp.LT, _LANE, _number(i % LANES)))
        b.store("y", _LANE, _LANE)
        b.close()
    for i in range(count):
        b.async_wait(f"c{i}")
    return b.build(check=False)


def one_tag(nodes: int) -> Program:
    """Asynchronous copies one after the other under one tag."""
    b = _events("one_tag")
    b.buffer("t", _U32, Access.WORKGROUP, LANES)
    for _ in range(nodes // 4):
        b.async_load("x", "t", offset=_number(0), size=_number(16), tag="c")
        b.async_wait("c")
    return b.build(check=False)


SHAPES: Final[dict[str, Callable[[int], Program]]] = {
    shape.__name__: shape
    for shape in (
        lets,
        stores,
        copies,
        ifs,
        choices,
        guards,
        reduction,
        loops,
        nested,
        scopes,
        deep,
        shared,
        selects,
        atomics,
        tiles,
        transfers,
        breaks,
        counters,
        gathers,
        pending,
        one_tag,
    )
}
"""Shapes by name."""


def built_lets(nodes: int) -> Program:
    """As ``lets``, by the tracing builder."""
    with ProgramBuilder("lets", workgroup=LANES) as p:
        y = p.output("y", u32, ELEMENTS)
        lane = p.global_id()
        value = p.let(lane)
        for i in range(1, (nodes - 5) // 6 + 1):
            value = p.let(value * i + lane)
        y[lane] = value
    return p.build()


def built_ifs(nodes: int) -> Program:
    """As ``ifs``, by the tracing builder."""
    with ProgramBuilder("ifs", workgroup=LANES) as p:
        y = p.output("y", u32, ELEMENTS)
        lane = p.global_id()
        for i in range(nodes // 7):
            with p.if_(lane < i % LANES):
                y[lane] = i
    return p.build()


def built_reduction(nodes: int) -> Program:
    """As ``reduction``, by the tracing builder."""
    with ProgramBuilder("reduction", workgroup=LANES) as p:
        x = p.input("x", u32, ELEMENTS)
        y = p.output("y", u32, ELEMENTS)
        lane = p.global_id()
        a = p.var(lane)
        for i in range((nodes - 5) // 5):
            a.assign(a ^ x[i % ELEMENTS])
        y[lane] = a
    return p.build()


def built_loops(nodes: int) -> Program:
    """As ``loops``, by the tracing builder."""
    with ProgramBuilder("loops", workgroup=LANES) as p:
        y = p.output("y", u32, ELEMENTS)
        lane = p.global_id()
        a = p.var(lane)
        for _ in range((nodes - 5) // 8):
            with p.for_(0, 2) as k:
                a.assign(a + k)
        y[lane] = a
    return p.build()


BUILT: Final[dict[str, Callable[[int], Program]]] = {
    "lets": built_lets,
    "ifs": built_ifs,
    "reduction": built_reduction,
    "loops": built_loops,
}
"""The shapes that the tracing builder records, by name."""
