"""The arguments of calls in a kernel."""

from __future__ import annotations

import ast

from vyre.domain.frontend.evaluation import operands
from vyre.domain.frontend.lowering import Lowering
from vyre.domain.frontend.operands import Constant, Operand, Thing
from vyre.domain.ir.numpy_scalars import value_type
from vyre.domain.ir.types import ScalarType


def positional(k: Lowering, node: ast.Call, count: int) -> list[Operand]:
    """Returns so many arguments, given by position."""
    refuse_stars(k, node)
    if node.keywords or len(node.args) != count:
        name, passed = called(node), len(node.args) + len(node.keywords)
        are_given = "one is given" if passed == 1 else f"{passed} are given"
        if node.keywords and passed == count:
            are_given = f"`{node.keywords[0].arg}` is given by name"
        k.fail(node, f"`{name}` takes {counted(count)}, and {are_given}", f"write {name}({', '.join('xyz'[:count])}).")
    return operands(k, node.args)


def bound(k: Lowering, node: ast.Call, names: tuple[str, ...], least: int) -> list[Operand]:
    """Returns the arguments in the order of the parameters ``names``, without those that are left out at the end.

    ``least``: how many must be given.  A first name "*" takes any number of arguments, by position; the
    function itself reads those that are named after it.
    """
    refuse_stars(k, node)
    if names[:1] == ("*",):
        for keyword in node.keywords:
            if keyword.arg not in names:
                problem = f"`{called(node)}` takes no argument `{keyword.arg}` in a kernel"
                k.fail(node, problem, "give the values by position only.")
        if len(node.args) < least:
            k.fail(node, f"`{called(node)}` takes at least {counted(least)}", f"write {called(node)}(x).")
        return operands(k, node.args)
    if not node.keywords and least <= len(node.args) <= len(names):
        return operands(k, node.args)
    slots: list[ast.expr | None] = [None] * len(names)
    for index, argument in enumerate(node.args[: len(names)]):
        slots[index] = argument
    wrong = len(node.args) > len(names)
    for keyword in node.keywords:
        if keyword.arg in names and slots[names.index(keyword.arg)] is None:
            slots[names.index(keyword.arg)] = keyword.value
        else:
            wrong = True
    count = len(slots)
    while count and slots[count - 1] is None:
        count -= 1
    filled = [slot for slot in slots[:count] if slot is not None]
    if wrong or count < least or len(filled) != count:
        wanted = counted(least) if least == len(names) else f"at most {counted(len(names))}"
        k.fail(node, f"the arguments do not fit `{called(node)}({', '.join(names)})` of kernels", f"give {wanted}.")
    return operands(k, filled)


def called(node: ast.Call) -> str:
    """Returns the function of a call as it is written."""
    return node.func.id if isinstance(node.func, ast.Name) else ast.unparse(node.func)


def counted(count: int) -> str:
    """Returns a number of arguments in words."""
    return {0: "no arguments", 1: "one argument"}.get(count, f"{count} arguments")


def refuse_stars(k: Lowering, node: ast.Call) -> None:
    """Raises an error for ``*`` and ``**`` in a call."""
    if any(isinstance(one, ast.Starred) for one in node.args) or any(one.arg is None for one in node.keywords):
        k.fail(node, "`*` and `**` cannot stand in a call of a kernel", "write each argument.")


def whole_argument(k: Lowering, operand: Operand, what: str, node: ast.AST, fix: str = "") -> int:
    """Returns an int that is known while the kernel is being built; ``what`` names it in the error."""
    if isinstance(operand, Constant) and isinstance(operand.value, bool | float):
        k.fail(node, f"{what} must be an int, not {operand.value!r}", "write an int.")
    if not isinstance(operand, Constant):
        fix = fix or "give an int, a captured constant or a Static[int] parameter."
        k.fail(node, f"{what} is not an int that is known while the kernel is being built", fix)
    return int(operand.value)


def type_argument(k: Lowering, operand: Operand, node: ast.AST) -> ScalarType:
    """Returns the type that an argument names."""
    dtype = as_type(operand.value) if isinstance(operand, Thing) else None
    if dtype is None:
        k.fail(node, "the first argument is no type", "give one, such as f32.")
    return dtype


def as_type(candidate: object) -> ScalarType | None:
    """Returns the type that a Python object stands for: one of vyre, or one of NumPy."""
    if isinstance(candidate, ScalarType):
        return candidate
    return value_type(candidate) if isinstance(candidate, type) else None
