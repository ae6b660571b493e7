"""Python's operators over the operands of a kernel.

Each keeps Python's meaning or is refused: ``//`` and ``%`` round down, ``/`` of integers is refused, a shift by the
width of the type or more gives what Python's would, reduced to the type.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Final, NoReturn

from vyre.domain.frontend.lowering import Lowering, flexible
from vyre.domain.frontend.operands import (
    PLACEHOLDER,
    Array,
    Constant,
    Items,
    Method,
    Operand,
    Scalar,
    Thing,
    indices_of,
)
from vyre.domain.ir.bits import value_bits
from vyre.domain.ir.expr import Binary, Cast, Expr, Literal, Select, Unary, Var
from vyre.domain.ir.numpy_scalars import python_number
from vyre.domain.ir.operators import FLOATS, INTEGERS, BinaryOp, UnaryOp
from vyre.domain.ir.types import ScalarType, TypeKind
from vyre.domain.printable import shown

_BOOL: Final = ScalarType.BOOL
_WRAPS_AT_LEAST: Final = 1 << 31
"""Every integer type that values have holds all smaller numbers."""
_OF_VALUES: Final = "use a number, an element or a variable."
_INFINITIES: Final = (float("inf"), float("-inf"))
_OF_INTEGERS: Final = "use integers: u32(x) converts a value, x.bitcast(u32) takes its bits."


# ---------------------------------------------------------------- numbers become values
def literal(k: Lowering, number: Constant, dtype: ScalarType, node: ast.AST) -> Scalar:
    """Returns a number as a value of a type, which it must fit."""
    value = number.value
    if isinstance(value, bool) is not (dtype is _BOOL):
        if isinstance(value, bool):
            k.fail(node, f"{value!r} is a bool where {dtype.text} is expected", f"write {int(value)}.")
        k.fail(node, f"{value!r} is a number where a bool is expected", "write True, False or a comparison.")
    if isinstance(value, float) and dtype.is_integer:
        k.fail(
            node,
            f"{value!r} is a fraction and stands beside a value of {dtype.text}",
            f"convert that value, f32(...), or write {int(value)}."
            if math.isfinite(value)
            else "convert that value with f32(...).",
        )
    try:
        bits = value_bits(dtype, value)
    except (ValueError, OverflowError) as error:
        message, _, fix = str(error).partition(" Fix: ")
        k.fail(node, message.removesuffix("."), fix or f"use a number that fits {dtype.text}.")
    expr = Literal(dtype, bits, loc=k.loc(node))
    if dtype.is_float and expr.value in _INFINITIES and value not in _INFINITIES:
        k.fail(node, f"{shown(value)} overflows {dtype.text}", "use a smaller number, or f64.")
    return Scalar(expr, dtype)


def standalone(k: Lowering, number: Constant, node: ast.AST) -> Scalar:
    """Returns a number that nothing gives a type: as bool, u32, i32 if it is negative, or f32.

    Numbers of NumPy keep their types, unless values of kernels have none of them.
    """
    if number.is_narrow:
        fix = f"convert it, {number.own!r}({written(node)}), or annotate the variable."
        k.fail(node, f"{number.value!r} is a {number.held.dtype} of NumPy, a type that no value of a kernel has", fix)
    if number.own is not None:
        return literal(k, number, number.own, node)
    value = number.value
    if isinstance(value, bool):
        return literal(k, number, _BOOL, node)
    if isinstance(value, float):
        return literal(k, number, ScalarType.F32, node)
    return literal(k, number, ScalarType.U32 if value >= 0 else ScalarType.I32, node)


def scalar(k: Lowering, operand: Operand, node: ast.AST) -> Scalar:
    """Returns an operand as a value; other things than values and numbers are refused."""
    operand = k.settled(operand)
    if isinstance(operand, Scalar):
        return operand
    if isinstance(operand, Constant):
        return standalone(k, operand, node)
    not_a_value(k, operand, node)


def not_a_value(k: Lowering, operand: Operand, node: ast.AST) -> NoReturn:
    """Raises the error for something that is used where a value is needed."""
    match operand:
        case Array(name=name, axes=axes):
            indices = indices_of(axes)
            k.fail(node, f"the array `{name}` is used where one element is needed", f"index it: {name}[{indices}].")
        case Items():
            k.fail(node, "a tuple is used where one value is needed", "take one of its items: t[0].")
        case Method(name=name):
            k.fail(node, f"the method `{name}` is used without being called", f"call it: .{name}(...).")
        case Thing(value=thing):
            what, fix = _described(thing)
            k.fail(node, f"{what} is used where a value is needed", fix)
        case _:
            k.fail(node, "this is used where a value is needed", _OF_VALUES)


def _described(thing: object) -> tuple[str, str]:
    """Returns words for a Python object that is no value, and what to do about it."""
    name = getattr(thing, "__name__", type(thing).__name__)
    match thing:
        case ModuleType():
            return f"the module `{name}`", f"name something in it: {name}.x."
        case ScalarType():
            return f"the type {thing.text}", f"convert a value to it: {spelled(thing)}(x)."
        case type():
            return f"the type `{name}`", f"convert a value to it: {name}(x)."
        case str() | range() | None:
            return shown(thing), _OF_VALUES
        case _ if callable(thing):
            return f"the function `{name}`", f"call it: {name}(...)."
        case _:
            return f"an object of {name}", _OF_VALUES


def typed(
    k: Lowering, operand: Operand, dtype: ScalarType, role: str, node: ast.AST, own: ast.AST | None = None
) -> Scalar:
    """Returns an operand, which must have a type; numbers take it.

    ``role`` names the operand in the error, and ``own`` is its expression, where it is known.
    """
    operand = k.settled(operand)
    if isinstance(operand, Constant):
        return _literal_for(k, operand, dtype, role, node, own)
    value = scalar(k, operand, node)
    if value.dtype is None:
        assert value.cell is not None
        value.cell.decide(dtype, k.loc(node))
        return Scalar(PLACEHOLDER, dtype)
    if value.dtype is not dtype:
        k.fail(node, f"{role} must be {dtype.text}, not {value.dtype.text}", f"convert it: {conversion(dtype, own)}.")
    return value


def _literal_for(
    k: Lowering, number: Constant, dtype: ScalarType, role: str, node: ast.AST, own: ast.AST | None
) -> Scalar:
    if isinstance(number.value, float) and dtype.is_integer:
        k.fail(
            node,
            f"{role} must be {dtype.text}, not the fraction {number.value!r}",
            f"write {conversion(dtype, own)}, which leaves out what follows the point."
            if math.isfinite(number.value)
            else f"use a number that {dtype.text} has.",
        )
    return literal(k, number, dtype, node)


def integer(k: Lowering, operand: Operand, role: str, node: ast.AST) -> Scalar:
    """Returns an operand, which must have an integer type; numbers are u32."""
    operand = k.settled(operand)
    if isinstance(operand, Constant):
        if isinstance(operand.value, bool | float):
            k.fail(node, f"{role} must be an integer, not {operand.value!r}", f"write {int(operand.value)}.")
        return literal(k, operand, operand.own or ScalarType.U32, node)
    value = scalar(k, operand, node)
    if value.dtype is not None and not value.dtype.is_integer:
        k.fail(node, f"{role} must be an integer, not {value.dtype.text}", "convert it: u32(...) or i32(...).")
    if value.cell is not None and value.dtype is None:
        value.cell.root.whole = True
    return value


def condition(k: Lowering, operand: Operand, node: ast.AST) -> Scalar:
    """Returns an operand as a truth value: numbers hold where they are not zero."""
    operand = k.settled(operand)
    if isinstance(operand, Constant):
        return literal(k, Constant(bool(operand.value)), _BOOL, node)
    value = scalar(k, operand, node)
    if value.dtype is _BOOL:
        return value
    return Scalar(Cast(_BOOL, value.expr, loc=k.loc(node)), _BOOL, None, value.changes)


def spelled(dtype: ScalarType) -> str:
    """Returns the name of a type in Python."""
    return "bool_" if dtype is _BOOL else dtype.text


# ---------------------------------------------------------------- two operands of one type
def common(k: Lowering, a: Operand, b: Operand, what: str, node: ast.AST) -> tuple[Scalar, Scalar]:
    """Returns two operands as values of one type; numbers take that of the other operand."""
    a, b = k.settled(a), k.settled(b)
    if isinstance(a, Constant) and isinstance(b, Constant):
        if is_bare(a) and is_bare(b):
            return _of_uses(k, a, b, node)
        if a.own is not None and b.own is not None and a.held.dtype != b.held.dtype:
            _fail_mixed(k, a.own, b.own, what, node)
        one = standalone(k, b if a.own is None and b.own is not None else a, node)
        return literal(k, a, _known(one), node), literal(k, b, _known(one), node)
    if isinstance(a, Constant):
        return _beside(k, a, scalar(k, b, node), node), scalar(k, b, node)
    if isinstance(b, Constant):
        return scalar(k, a, node), _beside(k, b, scalar(k, a, node), node)
    left, right = scalar(k, a, node), scalar(k, b, node)
    loc = k.loc(node)
    if left.dtype is None and right.dtype is None:
        assert left.cell is not None and right.cell is not None
        left.cell.join(right.cell, loc)
        return left, right
    if left.dtype is None or right.dtype is None:
        unknown, known = (left, right) if left.dtype is None else (right, left)
        assert unknown.cell is not None and known.dtype is not None
        unknown.cell.decide(known.dtype, loc)
        placeholder = Scalar(PLACEHOLDER, known.dtype)
        return (placeholder, right) if unknown is left else (left, placeholder)
    if left.dtype is not right.dtype:
        _fail_mixed(k, left.dtype, right.dtype, what, node)
    return left, right


def _fail_mixed(k: Lowering, left: ScalarType, right: ScalarType, what: str, node: ast.AST) -> NoReturn:
    """Raises the error for operands of two types."""
    one, other = _sides(node)
    which = f": {shortened(one)} is {left.text} and {shortened(other)} is {right.text}" if one and other else ""
    fix = f"convert one of them: {conversion(right, one)} or {conversion(left, other)}."
    if left.is_float is not right.is_float:
        fix = f"convert the other one: {conversion(left, other) if left.is_float else conversion(right, one)}."
    k.fail(node, f"{what} mixes {left.text} and {right.text}{which}", fix)


def _sides(node: ast.AST) -> tuple[ast.expr | None, ast.expr | None]:
    """Returns the operands of an operator as they are written, if there are two."""
    match node:
        case ast.BinOp(left=left, right=right) | ast.Compare(left=left, comparators=[right]):
            return left, right
        case ast.AugAssign(target=left, value=right) | ast.IfExp(body=left, orelse=right):
            return left, right
        case _:
            return None, None


_MOST_WRITTEN: Final = 40


def written(node: ast.AST | None) -> str:
    """Returns a short expression as it is written, and dots for a longer one."""
    text = ast.unparse(node) if isinstance(node, ast.expr) else "..."
    return text if len(text) <= _MOST_WRITTEN else "..."


def shortened(node: ast.expr) -> str:
    """Returns an expression in quotes; a long one without its end."""
    text = ast.unparse(node)
    return f"`{text if len(text) <= _MOST_WRITTEN else text[: _MOST_WRITTEN - 3] + '...'}`"


def conversion(dtype: ScalarType, node: ast.AST | None) -> str:
    """Returns how the conversion of an expression to a type is written."""
    return f"{spelled(dtype)}({written(node)})"


def is_bare(operand: Operand) -> bool:
    """Returns whether an operand is a number of Python, which takes its type from its uses."""
    return isinstance(operand, Constant) and operand.own is None and not isinstance(operand.value, bool)


def _of_uses(k: Lowering, a: Constant, b: Constant, node: ast.AST) -> tuple[Scalar, Scalar]:
    """Returns two numbers as values of one type, which follows from what is done with them."""
    known = k.unknown_of(a.value, b.value)
    if isinstance(known, ScalarType):
        return literal(k, a, known, node), literal(k, b, known, node)
    return flexible(known), flexible(known)


def _known(value: Scalar) -> ScalarType:
    assert value.dtype is not None
    return value.dtype


def _beside(k: Lowering, number: Constant, other: Scalar, node: ast.AST) -> Scalar:
    """Returns a number that takes the type of a value."""
    if other.dtype is not None:
        return literal(k, number, other.dtype, node)
    assert other.cell is not None
    root = other.cell.root
    root.fractional |= isinstance(number.value, float)
    root.negative |= number.value < 0
    return Scalar(PLACEHOLDER, None, other.cell)


def made(k: Lowering, op: BinaryOp, a: Scalar, b: Scalar, node: ast.AST, dtype: ScalarType | None = None) -> Scalar:
    """Returns ``a op b``, whose type is that of ``a`` unless another one is given."""
    changes = a.changes or b.changes
    if dtype is None and a.dtype is None:
        return Scalar(PLACEHOLDER, None, a.cell, changes)
    return Scalar(Binary(op, a.expr, b.expr, loc=k.loc(node)), dtype or a.dtype, None, changes)


# ---------------------------------------------------------------- binary operators
_FOLDED: Final[Mapping[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
_PLAIN: Final = {ast.Add: (BinaryOp.ADD, "+"), ast.Sub: (BinaryOp.SUB, "-"), ast.Mult: (BinaryOp.MUL, "*")}
_BITS: Final = {
    ast.BitAnd: (BinaryOp.BIT_AND, BinaryOp.AND, "&"),
    ast.BitOr: (BinaryOp.BIT_OR, BinaryOp.OR, "|"),
    ast.BitXor: (BinaryOp.BIT_XOR, BinaryOp.NE, "^"),
}
_MOST_BITS: Final = 4096


def binary(k: Lowering, op: ast.operator, a: Operand, b: Operand, node: ast.AST) -> Operand:
    """Returns ``a op b``."""
    kind = type(op)
    if isinstance(a, Constant) and isinstance(b, Constant):
        return _folded(k, kind, a, b, node)
    _refuse_narrow(k, node, a, b)
    if isinstance(a, Items) and isinstance(b, Items) and kind is ast.Add:
        return Items(a.items + b.items)
    if kind in (ast.LShift, ast.RShift):
        return _shift(k, kind, a, b, node)
    if kind is ast.Pow:
        return _power(k, a, b, node)
    if kind in _PLAIN:
        plain, text = _PLAIN[kind]
        left, right = _numbers(k, a, b, text, node)
        return made(k, plain, left, right, node)
    if kind in _BITS:
        bitwise, logical, text = _BITS[kind]
        left, right = common(k, a, b, f"`{text}`", node)
        if left.dtype is not None and left.dtype.is_float:
            k.fail(node, f"`{text}` is not defined for {left.dtype.text}", _OF_INTEGERS)
        return made(k, logical if left.dtype is _BOOL else bitwise, left, right, node)
    if kind is ast.Div:
        return _quotient(k, a, b, node)
    if kind is ast.FloorDiv:
        return floor_division(k, a, b, node)
    if kind is ast.Mod:
        return remainder(k, a, b, node)
    k.fail(node, "the operator `@` does not exist in kernels", "write the loops of the product.")


def computed(k: Lowering, function: Callable[..., Any], node: ast.AST, *arguments: Any) -> Any:
    """Returns what Python makes of objects, numbers in the types that they have.  Fails where it raises an error."""
    import numpy as np

    try:
        with np.errstate(all="ignore"):
            return function(*arguments)
    except (ArithmeticError, TypeError, ValueError) as error:
        k.fail(node, f"Python cannot compute this constant: {error}", "write one that has a value.")


def constant(k: Lowering, value: Any, node: ast.AST) -> Constant:
    """Returns a result of Python or NumPy, which must be a real number."""
    if not isinstance(python_number(value), int | float):
        k.fail(node, f"this constant is {shown(value)}, which is no real number", "use real numbers.")
    return Constant(value)


def _folded(k: Lowering, kind: type[ast.operator], a: Constant, b: Constant, node: ast.AST) -> Constant:
    if kind not in _FOLDED:
        k.fail(node, "the operator `@` does not exist in kernels", "write the loops of the product.")
    if kind in (ast.Pow, ast.LShift) and isinstance(a.value, int) and isinstance(b.value, int):
        bits = abs(b.value) * (a.value.bit_length() if kind is ast.Pow else 1)
        if bits > _MOST_BITS and not (kind is ast.Pow and abs(a.value) <= 1):
            k.fail(node, f"the exponent or count {shown(b.value)} is too large", f"use at most {_MOST_BITS}.")
    return constant(k, computed(k, _FOLDED[kind], node, a.held, b.held), node)


def _refuse_narrow(k: Lowering, node: ast.AST, *operands: Operand) -> None:
    """Refuses an operator that NumPy computes in a type that no value of a kernel has."""
    if any(isinstance(one, Scalar) and one.is_narrow for one in operands) and all(
        one.is_narrow or (isinstance(one, Constant) and one.own is None)
        for one in operands
        if isinstance(one, Scalar | Constant)
    ):
        fix = "annotate the variable where it starts, such as v: i32 = N."
        k.fail(node, "NumPy computes this in the narrow type with which the variable starts", fix)


def _numbers(k: Lowering, a: Operand, b: Operand, text: str, node: ast.AST) -> tuple[Scalar, Scalar]:
    left, right = common(k, a, b, f"`{text}`", node)
    if left.dtype is _BOOL:
        k.fail(node, f"`{text}` is not defined for bool", "convert: u32(a) counts a truth value as 0 or 1.")
    return left, right


def _quotient(k: Lowering, a: Operand, b: Operand, node: ast.AST) -> Scalar:
    left, right = _numbers(k, a, b, "/", node)
    if left.dtype in INTEGERS:
        k.fail(
            node,
            f"`/` of {_known(left).text} is a fraction in Python",
            "write // for the quotient rounded down, or convert: f32(a) / f32(b).",
        )
    if left.dtype is None and left.cell is not None:
        left.cell.root.fractional = True
    return made(k, BinaryOp.DIV, left, right, node)


def floor_division(k: Lowering, a: Operand, b: Operand, node: ast.AST) -> Scalar:
    """Returns ``a // b`` of integers, rounded down."""
    left, right = _whole(k, a, b, "//", "write math.floor(a / b), where the quotient is rounded first.", node)
    if left.dtype is None or not left.dtype.is_signed:
        return made(k, BinaryOp.DIV, left, right, node)
    left, right = named(k, left, node), named(k, right, node)
    quotient = made(k, BinaryOp.DIV, left, right, node)
    rest = made(k, BinaryOp.MOD, left, right, node)
    one = literal(k, Constant(1), _known(left), node)
    lower = made(k, BinaryOp.SUB, quotient, one, node)
    return _select(k, _rounds_down(k, rest, right, node), lower, quotient, node)


def remainder(k: Lowering, a: Operand, b: Operand, node: ast.AST) -> Scalar:
    """Returns ``a % b`` of integers, which has the sign of ``b``."""
    left, right = _whole(k, a, b, "%", "write a - math.floor(a / b) * b, which is rounded in each step.", node)
    if left.dtype is None or not left.dtype.is_signed:
        return made(k, BinaryOp.MOD, left, right, node)
    right = named(k, right, node)
    rest = k.let(made(k, BinaryOp.MOD, left, right, node), "rest", node)
    return _select(k, _rounds_down(k, rest, right, node), made(k, BinaryOp.ADD, rest, right, node), rest, node)


def _whole(k: Lowering, a: Operand, b: Operand, text: str, fix: str, node: ast.AST) -> tuple[Scalar, Scalar]:
    left, right = _numbers(k, a, b, text, node)
    if isinstance(k.settled(b), Constant) and isinstance(right.expr, Literal) and right.dtype and not right.expr.value:
        k.fail(node, f"`{text}` divides by zero", "divide by another number.")
    if left.dtype in FLOATS:
        k.fail(node, f"`{text}` is for integers in a kernel, and this is {_known(left).text}", fix)
    return left, right


def _rounds_down(k: Lowering, rest: Scalar, divisor: Scalar, node: ast.AST) -> Scalar:
    """Returns whether a truncated quotient lies above the exact one: there is a rest, of the other sign."""
    zero = literal(k, Constant(0), _known(rest), node)
    if isinstance(divisor.expr, Literal):
        op = BinaryOp.LT if divisor.expr.value > 0 else BinaryOp.GT
        return made(k, op, rest, zero, node, _BOOL)
    signs = made(k, BinaryOp.LT, made(k, BinaryOp.BIT_XOR, rest, divisor, node), zero, node, _BOOL)
    return made(k, BinaryOp.AND, made(k, BinaryOp.NE, rest, zero, node, _BOOL), signs, node)


def _select(k: Lowering, test: Scalar, on_true: Scalar, on_false: Scalar, node: ast.AST) -> Scalar:
    changes = test.changes or on_true.changes or on_false.changes
    expr = Select(test.expr, on_true.expr, on_false.expr, loc=k.loc(node))
    return Scalar(expr, on_true.dtype, on_true.cell, changes)


def select(k: Lowering, test: Scalar, on_true: Operand, on_false: Operand, node: ast.AST) -> Scalar:
    """Returns one of two operands of one type."""
    left, right = common(k, on_true, on_false, "the choice", node)
    return _select(k, test, left, right, node)


def named(k: Lowering, value: Scalar, node: ast.AST) -> Scalar:
    """Returns a value that may stand in an expression several times."""
    return value if isinstance(value.expr, Literal | Var) else k.let(value, "t", node)


def _power(k: Lowering, a: Operand, b: Operand, node: ast.AST) -> Scalar:
    base = scalar(k, a, node)
    exponent = b.value if isinstance(b, Constant) else None
    is_float = base.dtype is not None and base.dtype.is_float
    if type(exponent) is not int or not 1 <= exponent <= (2 if is_float else 64):
        k.fail(
            node,
            "`**` takes a constant exponent: 1 to 64 for integers, 2 for floats",
            _instead_of_power(a, b, is_float=is_float),
        )
    base = named(k, base, node)
    product: Scalar | None = None
    square, left = base, exponent
    while True:
        if left & 1:
            product = square if product is None else made(k, BinaryOp.MUL, product, square, node)
        left >>= 1
        if not left:
            return product or base
        square = made(k, BinaryOp.MUL, square, square, node)
        if left > 1:
            square = named(k, square, node)


_POWERS: Final = {0.5: "math.sqrt(x)", -0.5: "1.0 / math.sqrt(x)", -1: "1.0 / x", -2: "1.0 / (x * x)"}
"""What to write instead of a power that is no product."""


def _instead_of_power(base: Operand, exponent: Operand, *, is_float: bool) -> str:
    known = _POWERS.get(exponent.value) if isinstance(exponent, Constant) else None
    if known is not None:
        return f"write {known if is_float else known.replace('x', 'f32(x)')}."
    if isinstance(base, Constant) and base.value == 2:
        return "write 1 << n for integers, math.exp2(x) for floats."
    return "write the product, x * x * x; math.exp2(math.log2(x) * y) is an approximation."


def _shift(k: Lowering, kind: type[ast.operator], a: Operand, b: Operand, node: ast.AST) -> Scalar:
    left_shift = kind is ast.LShift
    text = "<<" if left_shift else ">>"
    if isinstance(a, Constant):
        a = standalone(k, a, node) if not isinstance(b, Scalar) or b.dtype is None else literal(k, a, b.dtype, node)
    value = scalar(k, a, node)
    if value.dtype is not None and not value.dtype.is_integer:
        k.fail(node, f"`{text}` is not defined for {value.dtype.text}", _OF_INTEGERS)
    op = BinaryOp.SHL if left_shift else BinaryOp.SHR
    if value.dtype is None:
        return Scalar(PLACEHOLDER, None, value.cell, value.changes)
    width = value.dtype.bits
    if isinstance(b, Constant):
        if not isinstance(b.value, int) or isinstance(b.value, bool) or b.value < 0:
            k.fail(node, f"the count of `{text}` is {b.value!r}", "give a count that is not negative.")
        if b.value < width:
            return made(k, op, value, literal(k, Constant(b.value), value.dtype, node), node)
        if left_shift or not value.dtype.is_signed:
            return literal(k, Constant(0), value.dtype, node)
        return made(k, op, value, literal(k, Constant(width - 1), value.dtype, node), node)
    count = integer(k, b, f"the count of `{text}`", node)
    if count.dtype is not None and count.dtype not in (ScalarType.U32, value.dtype):
        types = dict.fromkeys((ScalarType.U32.text, value.dtype.text))
        fix = f"convert it: {' or '.join(f'{one}(...)' for one in types)}."
        k.fail(node, f"the count of `{text}` is {count.dtype.text}", fix)
    if count.dtype is None or is_below(k, count.expr, width):
        return made(k, op, value, count, node)
    count = named(k, count, node)
    limit = literal(k, Constant(width), _known(count), node)
    fits = made(k, BinaryOp.LT, count, limit, node, _BOOL)
    shifted = made(k, op, value, count, node)
    if left_shift or not value.dtype.is_signed:
        return _select(k, fits, shifted, literal(k, Constant(0), value.dtype, node), node)
    most = literal(k, Constant(width - 1), _known(count), node)
    return made(k, op, value, _select(k, fits, count, most, node), node)


def is_below(k: Lowering, expr: Expr, limit: int) -> bool:
    """Returns whether an integer is certainly in 0..limit-1, by its form and the ends of the loops around it."""
    most = _most(k, expr)
    return most is not None and most < limit


def _most(k: Lowering, expr: Expr) -> int | None:
    """Returns a number that an integer, which is not negative, certainly does not exceed; None where none is seen."""
    match expr:
        case Literal():
            return int(expr.value) if expr.value >= 0 else None
        case Var():
            return k.greatest.get(expr.name)
        case Binary(op=BinaryOp.BIT_AND, left=left, right=right):
            bounds = [most for most in (_most(k, left), _most(k, right)) if most is not None]
            return min(bounds, default=None)
        case Binary(op=BinaryOp.MOD, right=Literal() as divisor):
            unsigned = divisor.dtype.kind is TypeKind.UNSIGNED
            return int(divisor.value) - 1 if unsigned and divisor.value > 0 else None
        case Binary(op=BinaryOp.MUL | BinaryOp.ADD as op, left=left, right=right):
            one, other = _most(k, left), _most(k, right)
            if one is None or other is None:
                return None
            most = one * other if op is BinaryOp.MUL else one + other
            return most if most < _WRAPS_AT_LEAST else None
        case _:
            return None


# ---------------------------------------------------------------- unary operators
def unary(k: Lowering, op: ast.unaryop, operand: Operand, node: ast.AST) -> Operand:
    """Returns ``op operand``."""
    operand = k.settled(operand)
    if isinstance(operand, Constant):
        return _folded_unary(k, op, operand, node)
    _refuse_narrow(k, node, operand)
    if isinstance(op, ast.Not):
        return negated(k, operand, node)
    value = scalar(k, operand, node)
    if value.dtype is None:
        if value.cell is not None and isinstance(op, ast.USub):
            value.cell.root.negative = True
        return value
    match op:
        case ast.UAdd():
            if value.dtype is _BOOL:
                k.fail(node, "`+` is not defined for bool", "convert: u32(...).")
            return value
        case ast.USub():
            if value.dtype is _BOOL:
                k.fail(node, "`-` is not defined for bool", "write `not`.")
            if not value.dtype.is_signed:
                k.refuse_guess()  # the negative of a bare number is i32
            made_of, dtype = UnaryOp.NEGATE, value.dtype
        case _:
            if value.dtype.is_float:
                k.fail(node, f"`~` is not defined for {value.dtype.text}", _OF_INTEGERS)
            if value.dtype is _BOOL:
                k.fail(node, "`~` of a bool is a number in Python", "write `not`.")
            made_of, dtype = UnaryOp.BIT_NOT, value.dtype
    return Scalar(Unary(made_of, value.expr, loc=k.loc(node)), dtype, None, value.changes)


def _folded_unary(k: Lowering, op: ast.unaryop, operand: Constant, node: ast.AST) -> Constant:
    value = operand.value
    match op:
        case ast.Not():
            return Constant(not value)
        case ast.USub():
            function: Callable[[Any], Any] = operator.neg
        case ast.UAdd():
            function = operator.pos
        case _:
            if isinstance(value, float | bool):
                k.fail(node, f"`~` is not defined for {value!r}", "use an int.")
            function = operator.invert
    return constant(k, computed(k, function, node, operand.held), node)


def negated(k: Lowering, operand: Operand, node: ast.AST) -> Scalar:
    """Returns ``not operand``."""
    value = scalar(k, operand, node)
    if value.dtype is _BOOL:
        return Scalar(Unary(UnaryOp.LOGICAL_NOT, value.expr, loc=k.loc(node)), _BOOL, None, value.changes)
    return Scalar(
        Unary(UnaryOp.LOGICAL_NOT, condition(k, value, node).expr, loc=k.loc(node)), _BOOL, None, value.changes
    )
