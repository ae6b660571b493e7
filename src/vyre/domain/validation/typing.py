"""Static types: every expression has one type, determined by its operands and the operator tables.

An expression that breaks a rule has no type (None), and expressions around it are not checked against it, so that one
mistake is reported once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from vyre.domain.ir import nodes as ir
from vyre.domain.ir.definitions import Definition
from vyre.domain.ir.node import Node
from vyre.domain.ir.operators import (
    ATOMIC_ELEMENTS,
    ATOMIC_TEXT,
    BINARY,
    FLOATS,
    SUBGROUP,
    UNARY,
    AtomicOp,
    BinaryOp,
    Ordering,
    RightOperand,
    binary_result,
    bitcast_is_legal,
    narrow_is_legal,
    unary_result,
    wrap_cast_is_legal,
)
from vyre.domain.ir.program import Access, Buffer
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.walk import unique_nodes
from vyre.domain.scoped_names import ScopedNames
from vyre.domain.validation.findings import Findings

_U32: Final = ScalarType.U32
_PRIVATE_FIX: Final = "no other lane sees private memory: load the element and store it."
_SPEC_TYPES: Final = frozenset({ScalarType.U32, ScalarType.I32, ScalarType.F32, ScalarType.BOOL})


_NO_DEFINITIONS: Final[Mapping[str, Definition]] = MappingProxyType({})


class Local:
    """A visible local: its type (None if its value has none) and whether anything reads it."""

    __slots__ = ("dtype", "is_counter", "is_parameter", "is_read")

    def __init__(self, dtype: ScalarType | None, *, is_counter: bool = False, is_parameter: bool = False) -> None:
        self.dtype: ScalarType | None = dtype
        self.is_counter: bool = is_counter
        """Whether it is the variable of a loop, which cannot be assigned."""
        self.is_parameter: bool = is_parameter
        """Whether it is a parameter of a definition, which cannot be assigned either."""
        self.is_read: bool = False


def static_type(expr: ir.Expr, locals_: Mapping[str, ScalarType], buffers: Mapping[str, Buffer]) -> ScalarType | None:
    """Returns the type of an expression of a program within the depth limits; None if it breaks a typing rule."""
    typer = ExpressionTyper(buffers, Findings())
    for name, dtype in locals_.items():
        typer.locals.declare(name, Local(dtype))
    return typer.type_of(expr)


class ExpressionTyper:
    """Types the expressions of one program and reports those that break a rule.

    ``begin`` starts a statement; until the next one the visible locals must not change, so that shared
    sub-expressions are visited once.  ``atomics`` collects the atomics of the statement.  ``definitions`` are those
    that may be called.
    """

    def __init__(
        self, buffers: Mapping[str, Buffer], findings: Findings, definitions: Mapping[str, Definition] = _NO_DEFINITIONS
    ) -> None:
        self.locals: ScopedNames[Local] = ScopedNames()
        self.atomics: list[ir.Atomic] = []
        self._buffers = buffers
        self._definitions = definitions
        self._findings = findings
        self._specs: dict[str, ir.Literal] = {}
        self._known: dict[int, ScalarType | None] = {}
        self._statement: Node | None = None

    def begin(self, stmt: Node) -> None:
        """Starts a statement, to which errors are attributed."""
        self._known.clear()
        self.atomics = []
        self._statement = stmt

    def type_of(self, expr: ir.Expr) -> ScalarType | None:
        """Returns the type of an expression of the current statement; None if it breaks a rule."""
        if type(expr) is ir.Literal:
            return expr.dtype
        key = id(expr)
        if key in self._known:
            return self._known[key]
        result = self._known[key] = _RULES[type(expr)](self, expr)
        return result

    def error(self, code: str, message: str, node: ir.Expr, fix: str | None = None) -> None:
        """Reports a violated rule at an expression."""
        nodes = (node,) if self._statement is None else (node, self._statement)
        self._findings.add(code, message, *nodes, fix=fix)

    def require(self, expr: ir.Expr, wanted: ScalarType, code: str, what: str) -> None:
        """Reports ``code`` if the expression has a type other than ``wanted``."""
        dtype = self.type_of(expr)
        if dtype is not None and dtype is not wanted:
            self.error(code, f"{what} is {dtype.text}, not {wanted.text}", expr)

    def require_integer(self, expr: ir.Expr, code: str, what: str) -> ScalarType | None:
        """Returns the type of the expression; reports ``code`` if it is no integer type."""
        dtype = self.type_of(expr)
        if dtype is not None and not dtype.is_integer:
            self.error(code, f"{what} is {dtype.text}, which is no integer type", expr)
            return None
        return dtype

    def _literal(self, expr: ir.Literal) -> ScalarType:
        return expr.dtype

    def _var(self, expr: ir.Var) -> ScalarType | None:
        local = self.locals.get(expr.name)
        if local is None:
            hint = "; a buffer of that name exists" if expr.name in self._buffers else ""
            self.error("V107", f"no local `{expr.name}` is visible here{hint}", expr)
            return None
        local.is_read = True
        return local.dtype

    def _load(self, expr: ir.Load) -> ScalarType | None:
        buffer = self._buffers.get(expr.buffer)
        self.require_integer(expr.index, "V114", f"the index of a load from `{expr.buffer}`")
        if buffer is None:
            self.error("V108", f"load from `{expr.buffer}`, which is no buffer", expr)
            return None
        if buffer.is_push and not (isinstance(expr.index, ir.Literal) and expr.index.bits == 0):
            self.error("V212", f"parameter `{expr.buffer}` is read at an index other than 0", expr)
        return buffer.element.widened if isinstance(buffer.element, ScalarType) else None

    def _length(self, expr: ir.BufferLength) -> ScalarType:
        if expr.buffer not in self._buffers:
            self.error("V109", f"length of `{expr.buffer}`, which is no buffer", expr)
        return _U32

    def _launch_id(self, expr: ir.LaunchId) -> ScalarType:
        if expr.axis not in (0, 1, 2):
            self.error("V110", f"axis {expr.axis} of `{expr.kind.name.lower()}` does not exist", expr)
        return _U32

    def _u32(self, expr: ir.SubgroupLane | ir.SubgroupSize) -> ScalarType:
        return _U32

    def _binary(self, expr: ir.Binary) -> ScalarType | None:
        left, right = self.type_of(expr.left), self.type_of(expr.right)
        if left is None or right is None:
            return None
        row = BINARY[expr.op]
        result = binary_result(expr.op, left, right)
        if result is not None:
            return result
        if expr.op is BinaryOp.MOD and left.is_float and left is right:
            self.error("V211", f"`{row.text}` is not defined for {left.text}", expr)
        elif left not in row.operands:
            self.error("V130", f"`{row.text}` takes {_names(row.operands)}, got {left.text} and {right.text}", expr)
        else:
            wanted = f"u32 or {left.text}" if row.right is RightOperand.SHIFT else left.text
            self.error("V130", f"the right operand of `{row.text}` is {right.text}, not {wanted}", expr)
        return None

    def _unary(self, expr: ir.Unary) -> ScalarType | None:
        operand = self.type_of(expr.operand)
        if operand is None:
            return None
        result = unary_result(expr.op, operand)
        if result is None:
            row = UNARY[expr.op]
            if operand is ScalarType.F64 and ScalarType.F32 in row.operands:
                self.error("V211", f"`{row.text}` is not defined for f64", expr)
            else:
                self.error("V131", f"`{row.text}` takes {_names(row.operands)}, got {operand.text}", expr)
        return result

    def _select(self, expr: ir.Select) -> ScalarType | None:
        self.require(expr.condition, ScalarType.BOOL, "V115", "the condition of `select`")
        first, second = self.type_of(expr.on_true), self.type_of(expr.on_false)
        if first is None or second is None:
            return None
        if first is not second:
            self.error("V029", f"`select` between {first.text} and {second.text}", expr)
            return None
        return first

    def _cast(self, expr: ir.Cast) -> ScalarType | None:
        source, target = self.type_of(expr.operand), expr.dtype
        if not target.is_executable:
            self.error("V012", f"cast to {target.text}, which is not executable", expr)
            return None
        if source is not None and source.is_integer and target.is_integer and target.bits < source.bits:
            self.error("V035", f"cast from {source.text} to {target.text} drops the high bits", expr)
        return target

    def _bitcast(self, expr: ir.Bitcast) -> ScalarType | None:
        source, target = self.type_of(expr.operand), expr.dtype
        if source is None:
            return None
        if not bitcast_is_legal(source, target):
            self.error("V012", f"bitcast from {source.text} to {target.text}", expr)
            return None
        return target

    def _narrow(self, expr: ir.Narrow | ir.Pack) -> ScalarType | None:
        what = "narrow" if isinstance(expr, ir.Narrow) else "pack"
        source = self.type_of(expr.operand)
        if not self._is_narrow(expr, what) or source is None:
            return None
        if source is not expr.dtype.widened:
            wanted = expr.dtype.widened.text
            self.error("V219", f"`{what}<{expr.dtype.text}>` takes {wanted}, got {source.text}", expr)
            return None
        return source if isinstance(expr, ir.Narrow) else _U32

    def _unpack(self, expr: ir.Unpack) -> ScalarType | None:
        self.require(expr.operand, _U32, "V219", f"the operand of `unpack<{expr.dtype.text}>`")
        return expr.dtype.widened if self._is_narrow(expr, "unpack") else None

    def _is_narrow(self, expr: ir.Narrow | ir.Pack | ir.Unpack, what: str) -> bool:
        if narrow_is_legal(expr.dtype):
            return True
        self.error("V219", f"`{what}` with the type {expr.dtype.text}, which is not narrow", expr)
        return False

    def _wrap_cast(self, expr: ir.WrapCast) -> ScalarType | None:
        source = self.type_of(expr.operand)
        if source is None:
            return None
        if not wrap_cast_is_legal(source, expr.dtype):
            self.error("V219", f"`wrap_cast` from {source.text} to {expr.dtype.text}", expr)
            return None
        return expr.dtype

    def _fma(self, expr: ir.Fma) -> ScalarType | None:
        slots = [
            (slot, operand, self.type_of(operand))
            for slot, operand in zip("abc", (expr.a, expr.b, expr.c), strict=True)
        ]
        float_type = next((dtype for _, _, dtype in slots if dtype in FLOATS), None)
        legal = True
        for slot, operand, dtype in slots:
            if dtype is None:
                legal = False
            elif dtype not in FLOATS or dtype is not float_type:
                kind = "a float" if float_type is None else float_type.text
                self.error("V028", f"operand {slot} of `fma` is {dtype.text}, not {kind}", operand)
                legal = False
        return float_type if legal else None

    def _atomic(self, expr: ir.Atomic) -> ScalarType | None:
        self.atomics.append(expr)
        what, buffer = f"`{ATOMIC_TEXT[expr.op]}`", self._buffers.get(expr.buffer)
        self.require_integer(expr.index, "V027", f"the index of {what} on `{expr.buffer}`")
        if expr.ordering is Ordering.GRID_SYNC:
            self.error("V042", f"{what} on `{expr.buffer}` has the ordering grid_sync", expr)
        if (expr.expected is None) is (expr.op is AtomicOp.COMPARE_EXCHANGE):
            state = "no expected value" if expr.expected is None else "an expected value"
            self.error("V129", f"{what} on `{expr.buffer}` has {state}", expr)
        element = self._atomic_element(expr, buffer, what)
        operands = (("expected value", expr.expected), ("value", expr.value))
        for role, operand in operands:
            if operand is None:
                continue
            if element is None:
                self.type_of(operand)
            else:
                self.require(operand, element, "V128", f"the {role} of {what} on `{expr.buffer}`")
        return element

    def _atomic_element(self, expr: ir.Atomic, buffer: Buffer | None, what: str) -> ScalarType | None:
        if buffer is None:
            self.error("V127", f"{what} on `{expr.buffer}`, which is no buffer", expr)
            return None
        if buffer.is_private:
            self.error("V214", f"{what} on `{expr.buffer}`, which is private memory", expr, _PRIVATE_FIX)
        elif buffer.access not in (Access.READ_WRITE, Access.WORKGROUP):
            access = buffer.access.name.lower().replace("_", "-")
            self.error("V009", f"{what} on `{expr.buffer}`, which is {access}", expr)
        if not isinstance(buffer.element, ScalarType):
            return None
        if buffer.element not in ATOMIC_ELEMENTS:
            self.error("V202", f"{what} on `{expr.buffer}`, whose element is {buffer.element.text}", expr)
            return None
        return buffer.element

    def _subgroup_reduce(self, expr: ir.SubgroupReduce) -> ScalarType | None:
        row = SUBGROUP[expr.op]
        self._require_pure(row.text, expr.value)
        operand = self.type_of(expr.value)
        if operand is not None and operand not in row.operands:
            self.error("V211", f"`{row.text}` is not defined for {operand.text}", expr)
            return None
        return operand

    def _ballot(self, expr: ir.SubgroupBallot) -> ScalarType:
        self._require_pure("subgroup_ballot", expr.condition)
        self.require(expr.condition, ScalarType.BOOL, "V115", "the condition of `subgroup_ballot`")
        return _U32

    def _shuffle(self, expr: ir.SubgroupShuffle) -> ScalarType | None:
        self._require_pure("subgroup_shuffle", expr.value, expr.lane)
        result = self.type_of(expr.value)
        self.require(expr.lane, _U32, "V114", "the lane of `subgroup_shuffle`")
        return result

    def _require_pure(self, what: str, *operands: ir.Expr) -> None:
        for operand in operands:
            self.type_of(operand)
        impure = _first_atomic(operands) if self.atomics else None
        if impure is not None:
            self.error("V204", f"an operand of `{what}` contains an atomic on `{impure.buffer}`", impure)

    def _spec_const(self, expr: ir.SpecConst) -> ScalarType | None:
        if type(expr.default) is not ir.Literal:
            self.error("V211", f"the default of specialization constant `{expr.name}` is no literal", expr)
            return None
        dtype = expr.default.dtype
        if dtype not in _SPEC_TYPES:
            self.error("V211", f"specialization constant `{expr.name}` has the type {dtype.text}", expr)
            return None
        first = self._specs.setdefault(expr.name, expr.default)
        if first != expr.default:
            shown = f"{first.value} ({first.dtype.text}) and {expr.default.value} ({dtype.text})"
            self.error("V213", f"specialization constant `{expr.name}` has the defaults {shown}", expr)
        return dtype

    def _call(self, expr: ir.Call) -> ScalarType | None:
        types = [self.type_of(argument) for argument in expr.args]
        definition = self._definitions.get(expr.op)
        if definition is None:
            self.error("V223", f"call of `{expr.op}`, which is not defined before it", expr)
            return None
        wanted = definition.parameters
        if len(types) != len(wanted):
            message = f"`{expr.op}` takes {len(wanted)} arguments, got {len(types)}"
            self.error("V224", message, expr)
            return definition.result_type
        for parameter, argument, dtype in zip(wanted, expr.args, types, strict=True):
            if dtype is not None and dtype is not parameter.dtype:
                message = f"argument `{parameter.name}` of `{expr.op}` is {dtype.text}, not {parameter.dtype.text}"
                self.error("V224", message, argument if argument.loc is not None else expr)
            elif parameter.is_attribute and type(argument) is not ir.Literal:
                message = f"argument `{parameter.name}` of `{expr.op}` is an attribute, and no literal is passed"
                self.error("V224", message, argument if argument.loc is not None else expr)
        return definition.result_type

    def _native(self, expr: ir.Native) -> ScalarType:
        for argument in expr.args:
            self.type_of(argument)
        return expr.dtype


def _first_atomic(operands: tuple[ir.Expr, ...]) -> ir.Atomic | None:
    return next((node for node in unique_nodes(operands) if isinstance(node, ir.Atomic)), None)


def _names(types: frozenset[ScalarType]) -> str:
    names = [t.text for t in ScalarType if t in types]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


_RULES: Final[dict[type[Node], Callable[[ExpressionTyper, Any], ScalarType | None]]] = {
    ir.Literal: ExpressionTyper._literal,
    ir.Var: ExpressionTyper._var,
    ir.Load: ExpressionTyper._load,
    ir.BufferLength: ExpressionTyper._length,
    ir.LaunchId: ExpressionTyper._launch_id,
    ir.SubgroupLane: ExpressionTyper._u32,
    ir.SubgroupSize: ExpressionTyper._u32,
    ir.Binary: ExpressionTyper._binary,
    ir.Unary: ExpressionTyper._unary,
    ir.Select: ExpressionTyper._select,
    ir.Cast: ExpressionTyper._cast,
    ir.Bitcast: ExpressionTyper._bitcast,
    ir.Narrow: ExpressionTyper._narrow,
    ir.Pack: ExpressionTyper._narrow,
    ir.Unpack: ExpressionTyper._unpack,
    ir.WrapCast: ExpressionTyper._wrap_cast,
    ir.Fma: ExpressionTyper._fma,
    ir.Atomic: ExpressionTyper._atomic,
    ir.SubgroupReduce: ExpressionTyper._subgroup_reduce,
    ir.SubgroupBallot: ExpressionTyper._ballot,
    ir.SubgroupShuffle: ExpressionTyper._shuffle,
    ir.SpecConst: ExpressionTyper._spec_const,
    ir.Call: ExpressionTyper._call,
    ir.Native: ExpressionTyper._native,
}
