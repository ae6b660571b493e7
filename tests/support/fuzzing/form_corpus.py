"""Hand-made programs that between them hold every node, operator, enum member and buffer attribute."""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from vyre.domain.ir import expr as x
from vyre.domain.ir import stmt as s
from vyre.domain.ir.definitions import Definition, Parameter, Version
from vyre.domain.ir.expr import Expr, IdKind, Literal, Load, Var
from vyre.domain.ir.operators import BINARY, UNARY, AtomicOp, BinaryOp, Ordering, Result, SubgroupOp, UnaryOp
from vyre.domain.ir.program import Access, Buffer, BufferHints, CacheLocality, MemoryKind, Program
from vyre.domain.ir.types import EXECUTABLE_TYPES, ReservedType, ScalarType, f32, u8, u32, u64

VECTORS: Final = Path(__file__).parents[2] / "data" / "vectors"
FLOAT_BITS: Final = {
    ScalarType.F32: (
        *(0, 0x8000_0000, 1, 0x007F_FFFF, 0x0080_0000, 0x3DCC_CCCD, 0x3F80_0001, 0x4B80_0000, 0x7F7F_FFFF),
        *(0x7F80_0000, 0xFF80_0000, 0x7FC0_0000, 0x7FC0_0001, 0xFFFF_FFFF, 0x1980_0001, 0x5015_02F9),
    ),
    ScalarType.F64: (
        *(0, 1 << 63, 1, 0x3FB9_9999_9999_999A, 0x7FEF_FFFF_FFFF_FFFF, 0x7FF0_0000_0000_0000),
        *(0x7FF8_0000_0000_0000, 0xFFF0_0000_0000_0001),
    ),
}
INTEGER_VALUES: Final = (0, 1, 0x7F, 0x80, 0xFFFF, 0x1_0000)


def lit(value: int) -> Literal:
    return Literal.of(u32, value)


def storage(name: str, binding: int, element: ScalarType | ReservedType = u32, **options: Any) -> Buffer:
    return Buffer.make(name, binding, options.pop("access", Access.READ_WRITE), element, **options)


def program(*body: s.Stmt, buffers: tuple[Buffer, ...] = (storage("y", 0),), **options: Any) -> Program:
    return Program(buffers, (64, 1, 1), body, **options)


def store(value: Expr, index: int = 0) -> s.Store:
    return s.Store("y", lit(index), value)


def _literals() -> Program:
    values: list[Literal] = []
    for dtype in EXECUTABLE_TYPES:
        if dtype.is_float:
            values += (Literal(dtype, bits) for bits in FLOAT_BITS[dtype])
        elif dtype is ScalarType.BOOL:
            values += (Literal(dtype, 0), Literal(dtype, 1))
        else:
            top = (1 << dtype.bits) - 1
            values += (Literal(dtype, bits) for bits in (*INTEGER_VALUES, top, top >> 1, (top >> 1) + 1))
    return program(*(s.Let(f"v{i}", value) for i, value in enumerate(values)))


def _operators() -> Program:
    names = (s.Let("a", lit(1)), s.Let("b", lit(2)))
    a, b = Var("a"), Var("b")
    binary = [store(x.Binary(op, a, b), i) for i, op in enumerate(BINARY)]
    unary = [store(x.Unary(op, a), i) for i, op in enumerate(UNARY)]
    nested = [
        store(x.Binary(outer, x.Binary(inner, a, b), x.Binary(inner, b, a)))
        for outer in BinaryOp
        for inner in BinaryOp
        if BINARY[outer].infix or BINARY[outer].result is Result.BOOL
    ]
    return program(*names, *binary, *unary, *nested)


def _memory() -> Program:
    buffers = (
        storage(
            "late", 7, count=3, is_output=True, output_range=(4, 8), hints=BufferHints(2, 64, CacheLocality.RANDOM)
        ),
        storage("tile", 0, access=Access.WORKGROUP, count=32),
        storage("in", 1, u8, access=Access.READ_ONLY, hints=BufferHints(0, 0, CacheLocality.STREAMING)),
        storage("same", 3, f32, is_output=True, like="in"),
        storage("o", 9, u64, access=Access.WRITE_ONLY, count=1),
        Buffer("w", 10, Access.WRITE_ONLY, u32, 4),
        storage("table", 4, access=Access.UNIFORM, count=2),
        storage("a", 5, f32, access=Access.UNIFORM, count=1, kind=MemoryKind.PUSH),
        storage("b", 6, access=Access.UNIFORM, count=1, kind=MemoryKind.PUSH, hints=BufferHints(None, 4)),
        *(storage(f"kind {k.name}", 20 + k.value, kind=k) for k in MemoryKind),
        storage("spare", 3, access=Access.WORKGROUP, count=8),
        storage("spare too", 0, access=Access.WORKGROUP, count=8),
        storage("first", 0, access=Access.WORKGROUP, count=32),
        storage("least", 0, access=Access.WORKGROUP, count=2),
    )
    return program(
        s.Store("first", lit(1), x.BufferLength("in")),
        s.Store("tile", Load("b", lit(0)), Load("first", Load("a", lit(1)))),
        s.Let("b", Load("a", lit(0))),
        s.Store("late", Var("b"), Load("b", lit(0))),
        s.Store("late", lit(0), Load("a", lit(0))),
        *(s.Let(f"old {op.name} {ordering.name}", _atomic(op, ordering)) for op in AtomicOp for ordering in Ordering),
        buffers=buffers,
        name="memory of every kind",
        non_composable=True,
    )


def _atomic(op: AtomicOp, ordering: Ordering) -> x.Atomic:
    expected = lit(5) if op is AtomicOp.COMPARE_EXCHANGE else None
    return x.Atomic(op, "late", lit(0), expected, x.Binary(BinaryOp.ADD, lit(1), lit(2)), ordering)


def _expressions() -> Program:
    tile = x.SpecConst("TILE", Literal.of(u32, 16))
    values = (
        *(x.LaunchId(kind, axis) for kind in IdKind for axis in range(3)),
        *(x.SubgroupLane(), x.SubgroupSize(), x.SubgroupBallot(Literal(ScalarType.BOOL, 1))),
        *[x.SubgroupReduce(op, lit(1)) for op in SubgroupOp],
        x.SubgroupShuffle(lit(1), x.SubgroupLane()),
        x.Unary(UnaryOp.POPCOUNT, lit(1)),
        x.Select(Literal(ScalarType.BOOL, 0), lit(1), lit(2)),
        x.Fma(*(Literal.of(f32, value) for value in (1.5, -2.0, 0.1))),
        *(node(dtype, lit(1)) for node in (x.Cast, x.Bitcast) for dtype in ScalarType),
        *(tile, x.SpecConst("ratio", Literal.of(f32, -0.5)), x.SpecConst("on", Literal(ScalarType.BOOL, 1)), tile),
        x.SpecConst("low", Literal.of(ScalarType.I32, -3)),
    )
    return program(*(store(value, i) for i, value in enumerate(values)), name="x")


def _statements() -> Program:
    yes, no = Literal(ScalarType.BOOL, 1), Literal(ScalarType.BOOL, 0)
    return program(
        s.Let("n", lit(0)),
        s.Loop("k", lit(0), lit(4), lit(1), (s.Assign("n", Var("k")), s.If(no, (s.Break(),)), s.Continue())),
        s.Loop("k", lit(9), lit(0), lit(3), ()),
        s.Loop("k", lit(0), lit(2), lit(1), (s.Loop("j", lit(0), Var("k"), Var("k"), (store(Var("j")),)),)),
        s.If(yes, (), (s.Let("t", lit(1)),)),
        s.If(yes, (s.Let("t", lit(1)),), (s.If(no, (s.Let("t", lit(2)),), (s.If(yes, (), (s.Return(),)),)),)),
        s.If(yes, (), (s.If(no, ()), s.If(no, ()))),
        s.Block(()),
        s.Block((s.Block((s.Let("t", lit(1)),)), s.Let("u", lit(2)), store(Var("u")))),
        s.Region("g", (s.Let("t", lit(1)),)),
        s.Region('quoted "name"\n\\', (), "source\t\u00e9\u2028"),
        *(s.Barrier(ordering) for ordering in Ordering),
        s.AsyncLoad("y", "z", lit(0), lit(4), "copy"),
        s.AsyncStore("z", "y", lit(4), lit(4), "back"),
        s.AsyncWait("back"),
        s.AsyncWait("copy"),
        s.Trap(lit(7), "out of order"),
        s.IndirectDispatch("z", 16),
        buffers=(storage("z", 4), storage("y", 0, count=16)),
    )


def _names() -> Program:
    odd = ("let", "true", "x y", "", "7", 'say "hi"', "back\\slash", "line\nbreak", "\u00fc\U0001f600", "\ud800", "and")
    buffers = (*(storage(f"{name}!", i) for i, name in enumerate(odd)), storage("for", 99, like="let!"))
    body = [s.Let(name, lit(i)) for i, name in enumerate(odd)]
    uses = [s.Store(f"{name}!", Var(name), Load("for", Var(name))) for name in odd]
    contextual = [s.Let(word, lit(1)) for word in ("min", "step", "gid", "len", "f32", "in", "body", "output", "from")]
    sums: list[s.Stmt] = [s.Assign("min", x.Binary(BinaryOp.LT, Var("gid"), Var("f32"))), store(Var("step"))]
    return program(*body, *uses, *contextual, *sums, buffers=(*buffers, storage("y", 500)), name="program")


def deep_program(statements: int = 64, operators: int = 128) -> Program:
    """A program at the limits of nesting, or beyond."""
    value: Expr = lit(1)
    for i in range(operators):
        value = x.Unary(UnaryOp.BIT_NOT, value) if i % 2 else x.Binary(BinaryOp.SUB, lit(1), value)
    body: tuple[s.Stmt, ...] = (store(value),)
    for i in range(statements):
        match i % 4:
            case 0:
                body = (s.If(Literal(ScalarType.BOOL, 1), body),)
            case 1:
                body = (s.Loop(f"k{i}", lit(0), lit(1), lit(1), body),)
            case 2:
                body = (s.Block(body),)
            case 3:
                body = (s.If(Literal(ScalarType.BOOL, 1), (), (s.Return(), *body)),)
    return program(*body)


def else_if(links: int, last: s.Body = ()) -> s.If:
    """A chain of ``if`` and ``else if`` that stores the number of the link taken."""
    otherwise = last
    for i in reversed(range(links)):
        otherwise = (s.If(x.Binary(BinaryOp.EQ, Var("n"), lit(i)), (store(lit(i)),), otherwise),)
    (first,) = otherwise
    assert isinstance(first, s.If)
    return first


def literals(dtype: ScalarType, *values: int) -> tuple[Literal, ...]:
    return tuple(Literal.of(dtype, value) for value in values)


def switch(arms: int) -> s.Switch:
    """A switch over the local ``n`` in which every third arm has several labels."""
    labels = [literals(u32, *range(8 * i, 8 * i + (5 if i % 3 == 0 else 1))) for i in range(arms)]
    return s.Switch(Var("n"), tuple(s.Arm(found, (store(lit(i)),)) for i, found in enumerate(labels)), (s.Return(),))


def _later_expressions() -> Program:
    nodes = (x.Narrow, x.Pack, x.Unpack, x.WrapCast, x.Cast, x.Bitcast)
    values = (
        *(node(dtype, Var("n")) for node in nodes for dtype in ScalarType),
        *(x.Unary(op, Var("n")) for op in UnaryOp),
        x.Binary(BinaryOp.LT, x.Narrow(ScalarType.F16, Var("n")), x.Unpack(ScalarType.BF16, Var("n"))),
    )
    return program(s.Let("n", lit(1)), *(store(value, i) for i, value in enumerate(values)))


def _later_memory() -> Program:
    buffers = (
        storage("stack", 3, access=Access.PRIVATE, count=64),
        storage("flags", 0, ScalarType.BOOL8, count=9),
        *(storage(f"kind {kind.name}", 20 + kind.value, kind=kind) for kind in MemoryKind),
        storage("unused", 0, ScalarType.BF16, access=Access.PRIVATE, count=3),
        storage("unused too", 0, ScalarType.BF16, access=Access.PRIVATE, count=3),
        storage("tile", 0, access=Access.WORKGROUP, count=3),
        storage("table", 0, ScalarType.BOOL8, access=Access.PRIVATE, count=2),
        storage("vectors", 1, ReservedType("vec", (ScalarType.BOOL8, 4)), access=Access.READ_ONLY),
        storage("y", 2),
    )
    return program(
        s.Store("table", lit(1), Load("tile", lit(0))),
        s.Store("stack", Literal.of(ScalarType.I64, -1), Load("flags", Literal.of(ScalarType.U64, 1 << 40))),
        store(x.BufferLength("stack")),
        buffers=buffers,
    )


def _later_statements() -> Program:
    minus = Literal.of(ScalarType.I32, -1)
    inner = s.Switch(Var("k"), (s.Arm((), ()), s.Arm(literals(ScalarType.I32, -(1 << 31)), (s.Break(),))))
    declared = s.Switch(
        Var("n"), (s.Arm((lit(1),), (s.Let("t", lit(1)),)), s.Arm((lit(2),), (s.Let("t", lit(2)),))), (else_if(3),)
    )
    mixed = (Literal(ScalarType.BOOL, 1), Literal.of(f32, 0.5), Literal.of(u64, 7), lit(7))
    return program(
        s.Let("n", lit(0)),
        s.Switch(Var("n"), ()),
        s.Switch(Var("n"), (), (store(lit(1)),)),
        s.Switch(Var("n"), (s.Arm(mixed, (s.Assign("n", lit(2)),)), s.Arm((lit(1),), ()))),
        declared,
        s.Loop("k", minus, Literal.of(ScalarType.I32, -9), minus, (inner, s.Continue())),
        s.Block((s.Block((switch(4), else_if(2, (s.Return(), s.Return())))),)),
        else_if(100, (s.Block((s.Let("t", lit(1)),)),)),
        s.If(Literal(ScalarType.BOOL, 1), (), (else_if(5, (switch(3),)),)),
    )


def _later_names() -> Program:
    """Words of the language, none of which is reserved."""
    words = ("switch", "case", "narrow", "pack", "unpack", "wrap_cast", "round_even", "private", "bool8")
    lets = [s.Let(word, lit(i)) for i, word in enumerate(words)]
    uses: list[s.Stmt] = [s.Assign(word, Var(word)) for word in words]
    uses += [s.Store(f"{word}s", Var(word), x.Binary(BinaryOp.LT, Var(word), Var("f16"))) for word in words]
    uses += [s.Store("switch.", Var("case"), lit(1)), s.Store("case.", Var("case"), Load("switch.", lit(1)))]
    over = s.Switch(Var("switch"), (s.Arm((lit(1),), (s.Assign("switch", Var("case")),)),))
    buffers = tuple(storage(f"{word}{end}", 2 * i + (end == "s")) for i, word in enumerate(words) for end in ".s")
    return program(*lets, s.Let("f16", lit(1)), *uses, over, buffers=buffers)


CORPUS: Final[dict[str, Program]] = {
    "empty": Program((), (1, 1, 1), ()),
    "literals": _literals(),
    "operators": _operators(),
    "memory": _memory(),
    "expressions": _expressions(),
    "statements": _statements(),
    "names": _names(),
    "deep": deep_program(),
}
RESERVED_ELEMENTS: Final = (
    ReservedType("vec2u32"),
    ReservedType("array", (12,)),
    ReservedType("vec", (ReservedType("vec", (f32, 3)), 4)),
    ReservedType("tensor_shaped", (f32, (2, 3, 4))),
    ReservedType("device_mesh", ((),)),
    ReservedType("sparse_bsr", (ScalarType.BF16, 4, 8)),
    ReservedType("quantized", (ScalarType.I8, "PerGroup { group_size: 64 }", 'Per "axis"')),
)
CORPUS["reserved elements"] = program(
    buffers=tuple(storage(f"b{i}", i, element) for i, element in enumerate(RESERVED_ELEMENTS))
)


CORPUS.update(
    {
        "later expressions": _later_expressions(),
        "later memory": _later_memory(),
        "later statements": _later_statements(),
        "later names": _later_names(),
        "long chain": program(s.Let("n", lit(0)), else_if(256)),
        "wide switch": program(s.Let("n", lit(0)), switch(256)),
    }
)


def grid_loop(*body: s.Stmt, name: str = "rounds", flag: str = "flag") -> s.GridLoop:
    return s.GridLoop(name, Var("n"), flag, body)


def _grid_loops() -> Program:
    """Loops beside and behind others, whose bodies declare what is free again behind them."""
    inner = (s.Let("t", lit(2)), s.Store("flag", Var("t"), lit(1)), s.Barrier(Ordering.GRID_SYNC))
    again = s.Let("t", x.Binary(BinaryOp.ADD, Var("first"), Var("rounds")))
    return program(
        s.Let("n", lit(3)),
        grid_loop(*inner, else_if(2), name="first"),
        s.Block((grid_loop(), store(Var("rounds")))),
        s.Region("g", (grid_loop(grid_loop(name="inner"), name="rounds"), again, store(Var("t"))), "scan.c"),
        buffers=(storage("y", 0), storage("flag", 1)),
    )


def _grid_loop_names() -> Program:
    """The word of grid loops, which is not reserved."""
    word = Var("grid_loop")
    return program(
        s.Let("n", lit(1)),
        s.Let("grid_loop", lit(1)),
        s.Let("e", word),
        s.Store("grid_loop", word, Load("grid_loop", word)),
        grid_loop(s.Assign("grid_loop", Load("grid_loop", lit(0))), flag="grid_loop"),
        grid_loop(name="odd name", flag="odd flag"),
        s.Assign("n", x.Binary(BinaryOp.ADD, Var("odd name"), Var("rounds"))),
        buffers=(storage("grid_loop", 0), storage("odd flag", 1)),
    )


CORPUS.update({"grid loops": _grid_loops(), "names of grid loops": _grid_loop_names()})


def _call(op: str, *args: Expr) -> x.Call:
    return x.Call(op, args)


def definition(name: str, result: Expr, *body: s.Stmt, types: Mapping[str, ScalarType] | None = None) -> Definition:
    parameters = tuple(Parameter(each, dtype) for each, dtype in (types or {}).items())
    return Definition(name, Version(1, 2), parameters, u32, tuple(body), result)


def _definitions() -> tuple[Definition, ...]:
    """Every kind of statement and expression that a definition may have."""
    one, n, total = lit(1), Var("n"), Var("total")
    bounded = s.Switch(n, (s.Arm((lit(7), lit(8)), (s.Break(),)),), (s.Continue(),))
    return (
        definition("acme.seven", lit(7)),
        definition("acme.second", Var("b"), types={"a": u32, "b": u32}),
        definition("acme.first", Var("a"), types={"a": u32, "b": u32}),
        definition("acme.twice", x.Binary(BinaryOp.ADD, n, n), types={"n": u32}),
        definition(
            "acme.nn.sum",
            x.Select(Literal(ScalarType.BOOL, 1), total, _call("acme.twice", _call("acme.seven"))),
            s.Let("total", x.Cast(u32, x.Fma(Var("a"), Var("a"), x.Narrow(ScalarType.F16, Var("a"))))),
            s.Loop("k", lit(0), n, one, (s.Assign("total", x.Unary(UnaryOp.BIT_NOT, total)), bounded)),
            s.If(
                x.Binary(BinaryOp.LT, n, one),
                (s.Let("t", one),),
                (s.If(x.Binary(BinaryOp.EQ, n, one), (s.Let("t", total),)),),
            ),
            s.Assign("total", x.Bitcast(u32, x.WrapCast(ScalarType.I32, Var("a")))),
            s.Assign("total", x.Unpack(ScalarType.U8, x.Pack(ScalarType.U8, total))),
            types={"n": u32, "a": f32},
        ),
        Definition(
            "acme.picked",
            Version(1),
            (Parameter("by", ScalarType.BOOL, True), Parameter("to", u32, True)),
            u32,
            (),
            Var("to"),
        ),
        definition('odd "id"', Var("x y"), types={"x y": u32}),
    )


def _calls() -> Program:
    n = Var("n")
    return replace(
        program(
            s.Let("n", _call("acme.seven")),
            store(_call("acme.nn.sum", Load("y", n), Literal.of(f32, 0.5))),
            store(x.Binary(BinaryOp.ADD, _call('odd "id"', _call("acme.twice", n)), _call("acme.seven"))),
        ),
        definitions=_definitions(),
    )


def _definition_names() -> Program:
    """Words of definitions, none of which is reserved, and ids that are quoted."""
    words = ("define", "version", "result", "call")
    odd = ("gid.x", "atomic_add.relaxed", "let.x", "plain", "", "\u00fc.b")
    return replace(
        program(
            *(s.Let(word, lit(i)) for i, word in enumerate(words)),
            *(s.Assign(word, Var(word)) for word in words),
            *(s.Store(word, Var(word), Load("call", Var("call"))) for word in words),
            *(store(_call(name, Var("call"))) for name in odd),
            buffers=(*(storage(word, i) for i, word in enumerate(words)), storage("y", 9)),
        ),
        definitions=(
            definition(
                "acme.words",
                Var("result"),
                s.Let("call", lit(1)),
                s.Assign("call", Var("result")),
                types={"result": u32},
            ),
            *(definition(name, Var("version"), types={"version": u32}) for name in odd),
        ),
    )


CORPUS.update({"calls": _calls(), "names of definitions": _definition_names()})


def oracle_programs() -> list[dict[str, Any]]:
    """Records of ``oracle-programs.jsonl.xz``."""
    lines = lzma.decompress((VECTORS / "oracle-programs.jsonl.xz").read_bytes()).splitlines()
    return [json.loads(line) for line in lines]


def conformance_programs() -> list[dict[str, Any]]:
    """Records of ``ir-conformance.json.xz``."""
    records: list[dict[str, Any]] = json.loads(lzma.decompress((VECTORS / "ir-conformance.json.xz").read_bytes()))[
        "programs"
    ]
    return records
