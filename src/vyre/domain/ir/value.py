"""``Value``: an expression under construction, with Python's operators and a static type.

A value is a recipe, not a result: it is evaluated at each point where a statement consumes it.
``ProgramBuilder.let`` evaluates it once.  A value that reads a buffer or a variable may be consumed only while that
buffer or variable is unchanged since the user wrote the value; later it raises ``BuildError``, so that a kernel means
what its lines say.  For example::

    x = b[0]
    b[0] = x + 1  # reads b[0], then changes it
    c[0] = x  # BuildError: b has changed; write x = p.let(b[0]) above

Typing follows the operator tables, so a mistake is reported at the line that makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, Protocol, TypeAlias

from vyre.domain.ir.bits import value_bits
from vyre.domain.ir.caller import caller_location, fail, located, users_name
from vyre.domain.ir.expr import Binary, Bitcast, Cast, Expr, Literal, Unary, Var
from vyre.domain.ir.foreign_names import FLOAT, type_hint
from vyre.domain.ir.foreign_use import ForeignValueUse, called, named, refuse, refuse_array
from vyre.domain.ir.numpy_scalars import (
    PYTHON_NUMBERS,
    NumpyNumber,
    NumpyType,
    is_numpy,
    own_type,
    python_number,
    type_fix,
    value_type,
)
from vyre.domain.ir.operators import (
    BINARY,
    UNARY,
    BinaryOp,
    RightOperand,
    UnaryOp,
    binary_result,
    bitcast_is_legal,
    cast_is_legal,
    unary_result,
)
from vyre.domain.ir.scopes import Scope, innermost_scope
from vyre.domain.ir.types import DataType, ReservedType, ScalarType, TypeKind, ValueOfKernel
from vyre.domain.printable import shown
from vyre.domain.source_location import SourceLocation

if TYPE_CHECKING:
    from vyre.domain.ir.stmt import Stmt


class OpenProgram(Protocol):
    """The program under construction to which a buffer or a local belongs; ``Recorder`` is its class."""

    clock: int

    def check_readable(self, origin: Origin, stamp: int) -> None:
        """Raises ``BuildError`` for a read, written at clock ``stamp``, of a value that has changed since."""

    def consume(self, value: Value) -> Expr:
        """Returns the expression of a value that a statement evaluates at this point."""

    def emit(self, stmt: Stmt) -> None:
        """Appends a statement to the open body."""

    def mark_written(self, *origins: Origin) -> None:
        """Marks these as changed; values that read them before are stale from now on."""


class Origin:
    """The source of a value's reads: one buffer or one local of one program under construction.

    ``written`` is the recorder's clock at the last change (0 = never).  ``closed`` means that its body has ended.
    ``pending``: its value is known only behind the block that is open.  ``declared_at`` is the line of a local; None
    for buffers, which live as long as the program.
    """

    __slots__ = ("closed", "declared_at", "kind", "mutable", "name", "pending", "recorder", "written", "written_at")

    def __init__(
        self, recorder: OpenProgram, kind: str, name: str, *, mutable: bool, declared_at: SourceLocation | None = None
    ) -> None:
        self.recorder: OpenProgram = recorder
        self.kind: str = kind
        self.name: str = name
        self.declared_at: SourceLocation | None = declared_at
        self.mutable: bool = mutable
        self.written: int = 0
        self.written_at: SourceLocation | None = None
        self.closed: bool = False
        self.pending: bool = False

    @property
    def label(self) -> str:
        """Returns the name in errors: that of the user's Python variable, where a local has one.  Slow."""
        name = users_name(lambda value: isinstance(value, Value) and value.is_local(self)) if self.declared_at else None
        return f"{self.kind} `{name or self.name}`"


# Each origin, with the recorder's clock when the user wrote the read (NEVER_STALE: it cannot change).
Reads: TypeAlias = Mapping[Origin, int]
NO_READS: Final[Reads] = MappingProxyType({})
NEVER_STALE: Final = 1 << 62


Method: TypeAlias = "Callable[[Value, Operand], Value]"
"""A method for an operator with two operands."""


def _operator(op: BinaryOp) -> Method:
    """Returns the method for an operator whose left operand is the value."""

    def operate(self: Value, other: Operand) -> Value:
        return binary(op, self, other)

    return operate


def _reflected(op: BinaryOp) -> Method:
    """Returns the method for an operator whose right operand is the value."""

    def operate(self: Value, other: Operand) -> Value:
        return binary(op, other, self)

    return operate


class Value(ForeignValueUse, ValueOfKernel):
    """An expression of a known type.  Values are made by a ``ProgramBuilder``, by operators and by ``vyre``
    functions.

    ``+ - * / % & | ^ ~ << >>`` and comparisons build expressions; on ``bool``, ``& | ^ ~`` are logical.  Numbers of
    Python and NumPy take the type of the other operand and must fit it.
    """

    __slots__ = ("_dtype", "_expr", "_reads", "_scope")
    if TYPE_CHECKING:
        __array_ufunc__: ClassVar[None]  # tells NumPy's stubs that vyre handles the operators
    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __init__(self, expr: Expr, dtype: ScalarType, reads: Reads = NO_READS) -> None:
        self._expr = expr
        self._dtype = dtype
        self._reads = reads
        self._scope = innermost_scope()

    @property
    def expr(self) -> Expr:
        """Returns the IR expression."""
        return self._expr

    @property
    def dtype(self) -> ScalarType:
        """Returns the type of the expression, which is always executable."""
        return self._dtype

    @property
    def reads(self) -> Reads:
        """Returns the buffers and locals that the expression reads."""
        return self._reads

    @property
    def scope(self) -> Scope | None:
        """Returns the innermost body of a branch or loop in which the value was made; it cannot be used after its
        end.
        """
        return self._scope

    def is_local(self, origin: Origin) -> bool:
        """Returns whether the expression is exactly the local of this origin."""
        return isinstance(self._expr, Var) and origin in self.reads

    @located
    def cast(self, dtype: TypeLike, *, loc: SourceLocation | None = None) -> Value:
        """Converts to ``dtype``: integers modular, floats to integers saturating with NaN to 0, bool is ``x != 0``."""
        target = _executable(dtype, "cast")
        if not cast_is_legal(self._dtype, target):
            fail(f"{self._dtype.text} cannot be cast to {target.text}", "cast to an executable type.")
        return derive(Cast(target, self._expr, loc=caller_location()), target, self)

    @located
    def bitcast(self, dtype: TypeLike, *, loc: SourceLocation | None = None) -> Value:
        """Reinterprets the bits as ``dtype``, which must have the same width; NaN bits become canonical first."""
        target = _executable(dtype, "bitcast")
        if not bitcast_is_legal(self._dtype, target):
            fail(
                f"{self._dtype.text} cannot be bitcast to {target.text}",
                "bitcast between u32, i32 and f32, or between u64, i64 and f64; use .cast() to convert.",
            )
        return derive(Bitcast(target, self._expr, loc=caller_location()), target, self)

    __add__: ClassVar[Method] = _operator(BinaryOp.ADD)
    __radd__: ClassVar[Method] = _reflected(BinaryOp.ADD)
    __sub__: ClassVar[Method] = _operator(BinaryOp.SUB)
    __rsub__: ClassVar[Method] = _reflected(BinaryOp.SUB)
    __mul__: ClassVar[Method] = _operator(BinaryOp.MUL)
    __rmul__: ClassVar[Method] = _reflected(BinaryOp.MUL)
    __truediv__: ClassVar[Method] = _operator(BinaryOp.DIV)
    __rtruediv__: ClassVar[Method] = _reflected(BinaryOp.DIV)

    def __floordiv__(self, other: Operand) -> Value:
        return _floor_division(self, other)

    def __rfloordiv__(self, other: Operand) -> Value:
        return _floor_division(other, self)

    __mod__: ClassVar[Method] = _operator(BinaryOp.MOD)
    __rmod__: ClassVar[Method] = _reflected(BinaryOp.MOD)
    __and__: ClassVar[Method] = _operator(BinaryOp.BIT_AND)
    __rand__: ClassVar[Method] = _reflected(BinaryOp.BIT_AND)
    __or__: ClassVar[Method] = _operator(BinaryOp.BIT_OR)
    __ror__: ClassVar[Method] = _reflected(BinaryOp.BIT_OR)
    __xor__: ClassVar[Method] = _operator(BinaryOp.BIT_XOR)
    __rxor__: ClassVar[Method] = _reflected(BinaryOp.BIT_XOR)
    __lshift__: ClassVar[Method] = _operator(BinaryOp.SHL)
    __rlshift__: ClassVar[Method] = _reflected(BinaryOp.SHL)
    __rshift__: ClassVar[Method] = _operator(BinaryOp.SHR)
    __rrshift__: ClassVar[Method] = _reflected(BinaryOp.SHR)

    def __eq__(self, other: Operand) -> Value:  # type: ignore[override]
        return binary(BinaryOp.EQ, self, other)

    def __ne__(self, other: Operand) -> Value:  # type: ignore[override]
        return binary(BinaryOp.NE, self, other)

    __lt__: ClassVar[Method] = _operator(BinaryOp.LT)
    __gt__: ClassVar[Method] = _operator(BinaryOp.GT)
    __le__: ClassVar[Method] = _operator(BinaryOp.LE)
    __ge__: ClassVar[Method] = _operator(BinaryOp.GE)

    def __neg__(self) -> Value:
        return unary(UnaryOp.NEGATE, self)

    def __invert__(self) -> Value:
        return unary(UnaryOp.LOGICAL_NOT if self._dtype is ScalarType.BOOL else UnaryOp.BIT_NOT, self)

    def __abs__(self) -> Value:
        return unary(UnaryOp.ABS, self)

    def __bool__(self) -> bool:
        refuse(
            f"Python cannot test {described(self)}, which is not known while the kernel is being built",
            "branch with `with p.if_(c):` or `select(c, a, b)`; instead of `and`, `or`, `not` and chained comparisons "
            "write & | ~ between comparisons in brackets, (a < b) & (b < c); write max_(a, b) for max, min_(a, b) for "
            "min, == and | for `in`.",
        )

    def __index__(self) -> int:
        self._unknown(
            "use p.for_(start, stop) for a loop and p.if_(c) for a branch that depend on it, and a p.input buffer "
            "instead of a list that it indexes."
        )

    def __int__(self) -> int:
        self._unknown("convert with .cast(i32) or .cast(u32).")

    def __float__(self) -> float:
        self._unknown("convert with .cast(f32); instead of those of `math` use functions of vyre, such as sin(x).")

    def __complex__(self) -> complex:
        self._unknown("keep the real and the imaginary part in two values.")

    def _unknown(self, fix: str) -> NoReturn:
        refuse(f"{described(self)} is not known while the kernel is being built, so Python cannot use it", fix)

    def __iter__(self) -> Iterator[Value]:
        refuse("a value is one scalar and cannot be iterated over", "loop with p.for_(start, stop).")

    def __repr__(self) -> str:
        return f"<{self._dtype.text} {self._expr!r}>"


Number: TypeAlias = int | float | bool | NumpyNumber
"""A number of Python or NumPy."""
Operand: TypeAlias = Value | Number
"""An expression, or a number that takes the type of what stands beside it."""
TypeLike: TypeAlias = DataType | NumpyType
"""A type of vyre, or the type of NumPy with the same memory format."""

_LOGICAL: Final = {BinaryOp.BIT_AND: BinaryOp.AND, BinaryOp.BIT_OR: BinaryOp.OR, BinaryOp.BIT_XOR: BinaryOp.NE}


@located
def literal(dtype: TypeLike, value: Number, *, loc: SourceLocation | None = None) -> Value:
    """Returns a constant of an executable type; raises ``BuildError`` if ``value`` does not fit."""
    number = python_number(value)
    if not isinstance(number, int | float):
        _not_a_number(dtype, value)
    return _constant(_executable(dtype, "make a literal of"), number)


def standalone(value: Number) -> Value:
    """Returns the constant for a number that no operand gives a type.

    A Python number becomes bool, u32 or f32, a NumPy scalar the executable type to which its own type widens.
    """
    number: Any = value if type(value) in PYTHON_NUMBERS else python_number(value)
    if number is not value and (own := own_type(value)) is not None:
        return _constant(own, number)
    if isinstance(number, bool):
        return _constant(ScalarType.BOOL, number)
    if isinstance(number, float):
        return _constant(ScalarType.F32, number)
    return _constant(ScalarType.U32, number)


def as_value(operand: Operand, dtype: ScalarType | None = None, role: str = "") -> Value:
    """Returns ``operand`` as a value; a number becomes a constant of ``dtype`` (None: by its own kind).

    ``role`` names it in the error.
    """
    if isinstance(operand, Value):
        return operand
    number = operand if type(operand) in PYTHON_NUMBERS else python_number(operand)
    if not isinstance(number, int | float):
        _not_a_value(operand)
    return standalone(operand) if dtype is None else _constant(dtype, number, role)


def typed(operand: Operand, dtype: ScalarType, role: str) -> Value:
    """Returns ``operand``, which must have type ``dtype``; ``role`` names it in the error."""
    value = as_value(operand, dtype, role)
    if value.dtype is not dtype:
        fail(
            f"{role} must be {dtype.text}, not {value.dtype.text}{types_of(value)}",
            f"convert it with .cast({_spelling(dtype)}).",
        )
    return value


def integer(operand: Operand, role: str) -> Value:
    """Returns ``operand``, which must have an integer type; numbers become u32.  ``role`` names it in the error."""
    value = as_value(operand, ScalarType.U32, role)
    if not value.dtype.is_integer:
        fail(
            f"{role} must be an integer, not {value.dtype.text}{types_of(value)}",
            "convert it with .cast(u32), or .cast(i32).",
        )
    return value


def condition(operand: Operand) -> Value:
    """Returns ``operand`` as a condition: types other than bool are cast, as ``x != 0``."""
    value = as_value(operand)
    return value if value.dtype is ScalarType.BOOL else value.cast(ScalarType.BOOL)


def common(operands: tuple[Operand, ...], role: str) -> tuple[tuple[Value, ...], ScalarType]:
    """Returns ``operands`` as values of one type, which numbers take from the values among them."""
    dtype = deciding_type(*operands)
    values = tuple(as_value(o, dtype) for o in operands)
    types = [v.dtype for v in values]
    if len(set(types)) > 1:
        fail(
            f"{role} mixes the types {', '.join(t.text for t in types)}{types_of(*values)}",
            f"convert with .cast(), for example .cast({_spelling(types[0])}).",
        )
    return values, types[0]


def deciding_type(*operands: Operand) -> ScalarType | None:
    """Returns the type that numbers among ``operands`` take: that of the first value, or else of the first NumPy
    scalar; None if there are Python numbers only.
    """
    of_values = next((o.dtype for o in operands if isinstance(o, Value)), None)
    return of_values or next(filter(None, map(own_type, operands)), None)


def derive(expr: Expr, dtype: ScalarType, *operands: Value) -> Value:
    """Returns the value of ``expr``, which reads everything that its operands read."""
    reads = NO_READS
    for operand in operands:
        if operand._scope is not None:
            check_in_scope(operand)
        more = operand.reads
        if more and more is not reads:
            reads = _merged(reads, more) if reads else more
    return Value(expr, dtype, reads)


def check_in_scope(value: Value) -> None:
    """Raises ``BuildError`` for a value made in a branch or loop that has ended.

    Lanes that skipped or repeated the branch or loop would evaluate it, too.
    """
    scope = value.scope
    if scope is None or not scope.ended:
        return
    for origin in value.reads:
        if origin.closed:
            refuse_closed(origin)
    name = users_name(lambda other: other is value)
    what, variable = (f"`{name}`", name) if name else ("a value", "v")
    fail(
        f"{what} made inside the {scope.what} block of {scope.loc}, at {value.expr.loc}, is used after that block: "
        "Python bound it once, whatever the lanes do",
        f"write {variable} = p.var(...) before the block, and {variable}.assign(...), += or the like inside.",
    )


def refuse_closed(origin: Origin) -> NoReturn:
    """Raises ``BuildError`` for a local that is used where it is no longer declared."""
    fail(
        f"{origin.label} is used outside the block that declares it ({origin.declared_at})",
        "declare it with p.var before the block and assign it inside.",
    )


def _merged(left: Reads, right: Reads) -> Reads:
    merged = dict(left)
    for origin, stamp in right.items():
        if stamp < merged.get(origin, NEVER_STALE + 1):
            merged[origin] = stamp
    return merged


def binary(op: BinaryOp, left: Operand, right: Operand) -> Value:
    """Returns ``left op right``, typed by the operator table; on bool the bit operators are the logical ones."""
    if isinstance(left, Value):
        a, b = left, as_value(right, left.dtype)
    elif isinstance(right, Value):
        a, b = as_value(left, right.dtype), right
    else:
        a = as_value(left, deciding_type(left, right))
        b = as_value(right, a.dtype)
    of_left, of_right = a._dtype, b._dtype
    if of_left is ScalarType.BOOL and of_right is ScalarType.BOOL:
        op = _LOGICAL.get(op, op)
    dtype = binary_result(op, of_left, of_right)
    if dtype is None:
        _untypable(op, a, b)
    return derive(Binary(op, a._expr, b._expr, loc=caller_location()), dtype, a, b)


def unary(op: UnaryOp, operand: Operand) -> Value:
    """Returns ``op operand``, typed by the operator table."""
    value = as_value(operand)
    dtype = unary_result(op, value.dtype)
    if dtype is None:
        type_error(UNARY[op].text, value.dtype, UNARY[op].operands)
    return derive(Unary(op, value.expr, loc=caller_location()), dtype, value)


def type_error(operation: str, dtype: ScalarType, allowed: frozenset[ScalarType]) -> NoReturn:
    """Raises ``BuildError`` for an operation that is not defined for this type."""
    *most, last = (_spelling(t) for t in ScalarType if t in allowed)
    listed = f"{', '.join(most)} or {last}" if most else last
    fix = f"use operands of type {listed}; .cast() converts."
    if dtype.is_float and (hint := FLOAT.get(operation)):
        fix = f"{hint}; or {fix}"
    fail(f"`{operation}` is not defined for {dtype.text}", fix)


def _constant(dtype: ScalarType, value: int | float, role: str = "") -> Value:
    prefix = f"{role} must be {dtype.text}: " if role else ""
    if isinstance(value, bool) and dtype.kind is not TypeKind.BOOL:
        problem = f"{prefix}{value!r} is a bool" if role else f"{value!r} is a bool where {dtype.text} is expected"
        fail(problem, f"write {int(value)}, or cast the condition.")
    try:
        bits = value_bits(dtype, value)
    except (ValueError, OverflowError, TypeError) as error:
        message, _, fix = str(error).partition(" Fix: ")
        fail(prefix + message.removesuffix("."), fix or f"use a number that fits {dtype.text}.")
    constant = Literal(dtype, bits, loc=caller_location())
    if dtype.is_float and constant.value in _INFINITIES and value not in _INFINITIES:
        fail(f"{prefix}{shown(value)} overflows {dtype.text}", "use a smaller number, f64, or float('inf').")
    return Value(constant, dtype)


_INFINITIES: Final = (float("inf"), float("-inf"))


def _floor_division(left: Operand, right: Operand) -> Value:
    dtype = deciding_type(left, right) or as_value(right).dtype
    if dtype.kind is not TypeKind.UNSIGNED:
        fail(
            f"`//` rounds down in Python, and the {dtype.text} quotient is not rounded down",
            "write a / b (integers truncate toward zero), or floor(a / b) for floats.",
        )
    return binary(BinaryOp.DIV, left, right)


def _executable(dtype: object, action: str) -> ScalarType:
    scalar = dtype if isinstance(dtype, ScalarType) else value_type(dtype)
    if scalar is None or not scalar.is_executable:
        name = dtype.text if isinstance(dtype, ScalarType | ReservedType) else shown(dtype)
        meant = type_hint(dtype)
        fix = type_fix(dtype) or (f"use vyre.{meant}" if meant else "use u32, i32, u64, i64, f32, f64 or bool_")
        if scalar is not None:
            wide = scalar.widened.text
            fix = f"use vyre.{wide}; {name} exists in buffers only, where a load widens it and a store narrows {wide}"
        fail(f"cannot {action} {name}: no expression has that type", fix + ".")
    return scalar


def _untypable(op: BinaryOp, a: Value, b: Value) -> NoReturn:
    row, left, right = BINARY[op], a.dtype, b.dtype
    if left in row.operands and right in row.operands:
        target = "u32" if row.right is RightOperand.SHIFT else _spelling(left)
        fail(
            f"`{row.text}` mixes {left.text} and {right.text}: the right operand must be {row.right.value}"
            f"{types_of(a, b)}",
            f"convert one side, for example with .cast({target}).",
        )
    wrong = a if left not in row.operands else b
    type_error(row.text, wrong.dtype, row.operands)


def type_argument(dtype: object, operation: str) -> ScalarType:
    """Returns the type that ``operation(type, x)`` is given first: one of vyre, or one of NumPy."""
    scalar_type = dtype if isinstance(dtype, ScalarType) else value_type(dtype)
    if scalar_type is None:
        meant = type_hint(dtype)
        fix = type_fix(dtype) or (f"use vyre.{meant}" if meant else f"write {operation}(type, x)")
        what = described(dtype) if isinstance(dtype, Value) else shown(dtype)
        fail(f"{operation} takes a type first, and {what} is none", f"{fix}.")
    return scalar_type


def types_of(*values: Value) -> str:
    """Returns the types of those operands for which the user has names, in brackets."""
    names = ((users_name(lambda other, value=value: other is value), value) for value in values)  # type: ignore[misc]
    known = [f"`{name}` is {value.dtype.text}" for name, value in names if name is not None]
    return f" ({', '.join(known)})" if known else ""


def _not_a_number(dtype: object, value: object) -> NoReturn:
    type_ = _spelling(dtype) if isinstance(dtype, ScalarType) else repr(dtype)
    if isinstance(value, Value):
        fail(
            f"{type_}(...) makes a constant of a number, and cannot convert {described(value)}",
            f"write {called(value) or 'x'}.cast({type_}).",
        )
    fail(
        f"{type_}(...) makes a constant of a number, which {shown(value)} ({type(value).__name__}) is not",
        "use an int, a float or a bool of Python or NumPy.",
    )


_AXES: Final = {"BufferHandle": "i", "View2d": "y, x", "View3d": "z, y, x"}


def _not_a_value(operand: object) -> NoReturn:
    kind = type(operand).__name__
    if (axes := _AXES.get(kind)) is not None:
        name = getattr(operand, "name", "buffer") if axes == "i" else "m"
        what = "a buffer" if axes == "i" else "a view"
        fail(f"{what} is used where one element is needed: `{name}`", f"index it: {name}[{axes}].")
    if is_numpy(operand):
        refuse_array(operand)
    fail(
        f"{shown(operand)} ({kind}) is neither a value nor a number",
        "use an int, a float or a bool of Python or NumPy, or an expression.",
    )


def described(value: Value) -> str:
    """Returns the name of a value in error messages: the user's name for it, else its type with an article."""
    article = "a" if value.dtype.text[0] in "bu" else "an"
    return named(value, f"{article} {value.dtype.text} value")


def _spelling(dtype: ScalarType) -> str:
    return "bool_" if dtype is ScalarType.BOOL else dtype.text
