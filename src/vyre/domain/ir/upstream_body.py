"""Bodies of programs imported from vyre-driver, the Rust system, with its typing made explicit.

Each expression carries two types: ``dtype``, the type that it computes, and ``declared``, the type that vyre-driver's
checker assigns to it.  They differ only for operators whose result it types u32 whatever their operands are.  The
importer makes these changes:

* a u32 condition becomes ``cast<bool>`` (also operands of And, Or, Not and ballot);
* an expression whose two types differ is cast to the declared one, unless it meets an operand of the
  same kind, or a cast, which both see the computed value there;
* operands that vyre-driver reads as u32 (load indices, shuffle lanes, trap addresses, byte offsets and
  sizes) are cast to u32;
* casts to narrow integers become casts to the 32-bit type that loads of them have: a store truncates;
* wrapping sums and differences become the plain ones;
* collectives over the single rank of the world group become copies.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final, NamedTuple

from vyre.domain.ir import expr as x
from vyre.domain.ir import stmt as s
from vyre.domain.ir.bits import integer_range
from vyre.domain.ir.expr import Expr, IdKind, Literal
from vyre.domain.ir.json_form import ID_TAGS
from vyre.domain.ir.json_tree import Child, Grammar, Production, boolean, hex_bits, integer, optional_text, text
from vyre.domain.ir.operators import (
    BOOL,
    F32,
    F64,
    I32,
    I64,
    U32,
    U64,
    AtomicOp,
    BinaryOp,
    Ordering,
    SubgroupOp,
    UnaryOp,
    binary_result,
    unary_result,
)
from vyre.domain.ir.program import Buffer
from vyre.domain.ir.types import DataType, ScalarType
from vyre.domain.ir.upstream_schema import Schema, UpstreamBinary, unsupported


class _Value(NamedTuple):
    """An imported expression; a type is None if the expression has none, which the validator reports."""

    expr: Expr
    dtype: ScalarType | None
    declared: ScalarType | None


_PLAIN: Final = {UpstreamBinary.WRAPPING_ADD: BinaryOp.ADD, UpstreamBinary.WRAPPING_SUB: BinaryOp.SUB}
_DECLARED_U32: Final[frozenset[Enum]] = frozenset(
    {BinaryOp.MOD, BinaryOp.BIT_AND, BinaryOp.BIT_OR, BinaryOp.BIT_XOR, BinaryOp.ABS_DIFF, BinaryOp.MUL_HIGH, *_PLAIN}
)
_UNCHECKED: Final[frozenset[Enum]] = frozenset({BinaryOp.MUL_HIGH, *_PLAIN})
"""Operators whose operand types vyre-driver does not check."""
_LOGICAL: Final = frozenset({BinaryOp.AND, BinaryOp.OR})
_WORLD: Final = 0
_EXPR, _BODY = Child.EXPR, Child.BODY
_U32_FIELD: Final = integer(0, 0xFFFF_FFFF)
_WIDE_LITERALS: Final = {f"vyre.literal.{t.text}": t for t in (U64, I64, F64)}


class BodyImporter:
    """Builds the grammar of a schema over the buffers of one program; ``notes`` collects remarks."""

    def __init__(self, buffers: tuple[Buffer, ...], schema: Schema, notes: list[str]) -> None:
        self._elements: dict[str, DataType] = {b.name: b.element for b in reversed(buffers)}
        self._schema = schema
        self._notes = notes
        self._scopes: list[dict[str, _Value]] = [{}]

    @property
    def grammar(self) -> Grammar:
        """Returns the grammar, with the tags of the schema."""
        tags = self._schema.tags

        def spelled(table: dict[str, Production]) -> dict[str, Production]:
            return {tags.get(tag, tag): production for tag, production in table.items()}

        return Grammar(spelled(self._expressions()), spelled(self._statements()), self._enter, self._leave)

    def _expressions(self) -> dict[str, Production]:
        schema = self._schema
        index = (text, _EXPR, Child.OPTIONAL_EXPR, _EXPR)
        atomic = (
            Production((schema.atomic, schema.ordering, *index), self._atomic)
            if schema.ordering_precedes_buffer
            else Production(
                (schema.atomic, *index, schema.ordering),
                lambda op, buffer, i, expected, value, ordering: self._atomic(op, ordering, buffer, i, expected, value),
            )
        )
        return {
            **{t.text: Production((integer(*integer_range(t)),), _literal(t)) for t in (U32, I32, U64, I64)},
            **{
                t.text: Production((schema.float_bits(t.bits // 4),), lambda bits, t=t: _known(Literal(t, bits), t))
                for t in (F32, F64)
            },
            "bool": Production((boolean,), _literal(BOOL)),
            "var": Production((text,), self._var),
            "load": Production((text, _EXPR), self._load),
            "buf_len": Production((text,), lambda buffer: _known(x.BufferLength(buffer), U32)),
            **{
                tag: Production((integer(0, 255),), lambda axis, kind=kind: _known(x.LaunchId(kind, axis), U32))
                for tag, kind in ID_TAGS.items()
                if kind is not IdKind.NUM_GROUPS
            },
            "bin": Production((schema.binary, _EXPR, _EXPR), _binary),
            "un": Production((schema.unary, _EXPR), _unary),
            "select": Production((_EXPR, _EXPR, _EXPR), _select),
            "cast": Production((schema.dtype, _EXPR), self._cast),
            "fma": Production((_EXPR, _EXPR, _EXPR), _fma),
            "atomic": atomic,
            "sg_ballot": Production((_EXPR,), lambda c: _known(x.SubgroupBallot(_condition(c)), U32)),
            "sg_add": Production((_EXPR,), lambda v: _known(x.SubgroupReduce(SubgroupOp.ADD, _settled(v)), v.declared)),
            "sg_shuffle": Production(
                (_EXPR, _EXPR), lambda v, lane: _known(x.SubgroupShuffle(_settled(v), _as_u32(lane)), v.declared)
            ),
            "sg_local_id": Production((), lambda: _known(x.SubgroupLane(), U32)),
            "sg_size": Production((), lambda: _known(x.SubgroupSize(), U32)),
            "opaque": Production((text, text), _opaque),
            "call": Production((text, _anything), _refuse("call of {0}")),
            "binx": Production((_anything, _anything, _anything), _refuse("extension operator {0}")),
        }

    def _statements(self) -> dict[str, Production]:
        copy = (text, text, _EXPR, _EXPR, text)
        op, group = _anything, _U32_FIELD
        return {
            "let": Production((text, _EXPR), self._let),
            "assign": Production((text, _EXPR), self._assign),
            "store": Production((text, _EXPR, _EXPR), self._store),
            "if": Production((_EXPR, _BODY, _BODY), lambda c, then, other: s.If(_u32_condition(c), then, other)),
            "loop": Production(
                (text, _EXPR, _EXPR, _BODY),
                lambda var, start, stop, body: s.Loop(var, _settled(start), _settled(stop), Literal(U32, 1), body),
            ),
            "return": Production((), s.Return),
            "block": Production((_BODY,), s.Block),
            "region": Production(
                (text, optional_text, _BODY), lambda generator, source, body: s.Region(generator, body, source)
            ),
            "barrier": Production((self._schema.ordering,), s.Barrier),
            "indirect_dispatch": Production((text, integer(0, (1 << 64) - 1)), s.IndirectDispatch),
            "async_load": Production(copy, _async(s.AsyncLoad)),
            "async_store": Production(copy, _async(s.AsyncStore)),
            "async_wait": Production((text,), s.AsyncWait),
            "trap": Production((_EXPR, text), lambda address, tag: s.Trap(_as_u32(address), tag)),
            "resume": Production((text,), _refuse("resume")),
            "all_reduce": Production((text, op, group), self._all_reduce),
            "broadcast": Production((text, _U32_FIELD, group), self._broadcast),
            "all_gather": Production((text, text, group), self._gather),
            "reduce_scatter": Production((text, text, op, group), lambda i, o, op, g: self._gather(i, o, g)),
            "opaque": Production((text, _anything), _refuse("opaque statement {0}")),
        }

    # Scopes: names, with the types that vyre-driver assigns to them.

    def _enter(self, tag: str, fields: list[Any]) -> None:
        self._scopes.append({fields[0]: _known(x.Var(fields[0]), U32)} if tag == "loop" else {})

    def _leave(self) -> None:
        self._scopes.pop()

    def _lookup(self, name: str) -> _Value:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return _Value(x.Var(name), None, None)

    def _var(self, name: str) -> _Value:
        return self._lookup(name)

    def _let(self, name: str, value: _Value) -> s.Let:
        self._scopes[-1][name] = _Value(x.Var(name), value.dtype, value.declared)
        return s.Let(name, value.expr)

    def _assign(self, name: str, value: _Value) -> s.Assign:
        variable = self._lookup(name)
        if value.dtype is variable.dtype:
            return s.Assign(name, value.expr)
        if variable.dtype is not None and variable.declared is value.declared:
            return s.Assign(name, x.Cast(variable.dtype, value.expr))
        return s.Assign(name, _settled(value))

    # Memory.

    def _load(self, buffer: str, index: _Value) -> _Value:
        element = self._elements.get(buffer)
        dtype = element.widened if isinstance(element, ScalarType) else None
        return _known(x.Load(buffer, _as_u32(index)), dtype)

    def _store(self, buffer: str, index: _Value, value: _Value) -> s.Store:
        return s.Store(buffer, _settled(index), _settled(value))

    def _atomic(
        self, op: Enum, ordering: Ordering, buffer: str, index: _Value, expected: _Value | None, value: _Value
    ) -> _Value:
        if not isinstance(op, AtomicOp):
            raise unsupported(f"atomic operator {op.name.lower()}")
        comparand = None if expected is None else _settled(expected)
        return _known(x.Atomic(op, buffer, _settled(index), comparand, _settled(value), ordering), U32)

    def _cast(self, target: DataType, value: _Value) -> _Value:
        if not isinstance(target, ScalarType):
            raise unsupported(f"cast to {target.text}")
        dtype = target.widened if target.is_integer else target
        if dtype is not target:
            self._notes.append(f"casts to {target.text} are casts to {dtype.text}: a store truncates")
        return _known(x.Cast(dtype, value.expr), dtype)

    # Collectives over one rank.

    def _all_reduce(self, buffer: str, _op: object, group: int) -> None:
        self._require_world(group, "all_reduce")
        self._notes.append(f"all_reduce of `{buffer}` over one rank dropped")

    def _broadcast(self, buffer: str, root: int, group: int) -> None:
        self._require_world(group, "broadcast")
        if root != 0:
            raise unsupported(f"broadcast from rank {root}")
        self._notes.append(f"broadcast of `{buffer}` over one rank dropped")

    def _gather(self, source: str, destination: str, group: int) -> s.If:
        self._require_world(group, "collective copy")
        self._notes.append(f"collective from `{source}` to `{destination}` over one rank became a copy")
        lane = x.LaunchId(IdKind.GLOBAL, 0)
        copy = s.Store(destination, lane, x.Load(source, lane))
        fits = s.If(x.Binary(BinaryOp.LT, lane, x.BufferLength(source)), (copy,))
        return s.If(x.Binary(BinaryOp.LT, lane, x.BufferLength(destination)), (fits,))

    @staticmethod
    def _require_world(group: int, what: str) -> None:
        if group != _WORLD:
            raise unsupported(f"{what} over group {group}")


def _known(expr: Expr, dtype: ScalarType | None) -> _Value:
    return _Value(expr, dtype, dtype)


def _literal(dtype: ScalarType) -> Callable[[int | bool], _Value]:
    return lambda value: _known(Literal.of(dtype, value), dtype)


def _settled(value: _Value) -> Expr:
    """Returns the expression in its declared type."""
    if value.declared is None or value.declared is value.dtype:
        return value.expr
    return x.Cast(value.declared, value.expr)


def _as_u32(value: _Value) -> Expr:
    if value.dtype in (U32, None):
        return value.expr
    return x.Cast(U32, value.expr)


def _condition(value: _Value) -> Expr:
    """Returns a condition that tests any value against zero."""
    if value.dtype in (BOOL, None):
        return value.expr
    return x.Cast(BOOL, value.expr)


def _u32_condition(value: _Value) -> Expr:
    """Returns a condition where vyre-driver admits u32 and bool only."""
    return _condition(value) if value.declared is U32 else value.expr


def _binary(op: Enum, left: _Value, right: _Value) -> _Value:
    plain = _PLAIN.get(op, op)  # type: ignore[call-overload]
    if not isinstance(plain, BinaryOp):
        raise unsupported(f"binary operator {op.name.lower()}")
    if plain in _LOGICAL:
        return _known(x.Binary(plain, _u32_condition(left), _u32_condition(right)), BOOL)
    same_kind = left.dtype is right.dtype and (left.declared is right.declared or op in _UNCHECKED)
    if not same_kind:
        left, right = _settle(left), _settle(right)
    expr = x.Binary(plain, left.expr, right.expr)
    if left.dtype is None or right.dtype is None:
        return _Value(expr, None, None)
    dtype = binary_result(plain, left.dtype, right.dtype)
    if dtype is None or dtype is BOOL:
        return _known(expr, dtype)
    return _Value(expr, dtype, U32 if op in _DECLARED_U32 else left.declared)


def _settle(value: _Value) -> _Value:
    return _known(_settled(value), value.declared)


def _unary(op: Enum, operand: _Value) -> _Value:
    if not isinstance(op, UnaryOp):
        raise unsupported(f"unary operator {op.name.lower()}")
    if op is UnaryOp.LOGICAL_NOT:
        return _known(x.Unary(op, _u32_condition(operand)), BOOL)
    dtype = None if operand.dtype is None else unary_result(op, operand.dtype)
    return _Value(x.Unary(op, operand.expr), dtype, BOOL if dtype is BOOL else dtype and operand.declared)


def _select(condition: _Value, on_true: _Value, on_false: _Value) -> _Value:
    if on_true.dtype is not on_false.dtype or on_true.declared is not on_false.declared:
        on_true, on_false = _settle(on_true), _settle(on_false)
    return _Value(x.Select(_condition(condition), on_true.expr, on_false.expr), on_true.dtype, on_true.declared)


def _fma(a: _Value, b: _Value, c: _Value) -> _Value:
    return _known(x.Fma(_settled(a), _settled(b), _settled(c)), a.declared)


def _async(node: Callable[..., s.Stmt]) -> Callable[[str, str, _Value, _Value, str], s.Stmt]:
    return lambda source, destination, offset, size, tag: node(source, destination, _as_u32(offset), _as_u32(size), tag)


def _opaque(kind: str, payload: str) -> _Value:
    dtype = _WIDE_LITERALS.get(kind)
    if dtype is None:
        raise unsupported(f"opaque expression {kind[:80]}")
    bits = int.from_bytes(hex_bits(16)(payload).to_bytes(8, "big"), "little")
    return _known(Literal(dtype, bits), dtype)


def _anything(value: object) -> object:
    return value


def _refuse(feature: str) -> Callable[..., Any]:
    def refuse(*fields: object) -> Any:
        raise unsupported(
            feature.format(*(str(field)[:80] if isinstance(field, str | int) else "" for field in fields))
        )

    return refuse
