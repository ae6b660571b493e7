"""Captures are the objects that a kernel names outside its own function: constants, types, modules and functions."""

from __future__ import annotations

import ast
import struct
from collections.abc import Callable
from difflib import get_close_matches
from enum import Enum
from functools import partial
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Final, NamedTuple

from vyre.domain.frontend.inlined import Inlined, Watch, watched
from vyre.domain.frontend.lowering import Lowering
from vyre.domain.frontend.operands import Constant, Items, Operand, Thing
from vyre.domain.ir.definitions import Definition
from vyre.domain.ir.numpy_scalars import is_numpy, own_type, python_number
from vyre.domain.ir.types import ScalarType

_MISSING: Final = object()


class Capture(NamedTuple):
    """A constant that a program depends on: how to read it again, and the identity of the value it had.

    ``watch``: how to see at little cost that it is the same object.
    """

    read: Callable[[], Any]
    value: object
    watch: Watch

    def is_current(self) -> bool:
        """Returns whether the constant still has that value."""
        try:
            return identity(self.read()) == self.value
        except (KeyError, AttributeError, ValueError):
            return False


def identity(value: Any) -> object:
    """Returns what tells values of captured constants apart: type and bits of numbers, the object of anything else."""
    if isinstance(value, float):
        return float, struct.pack("<d", value)
    if isinstance(value, bool | int | str | None):
        return type(value), value
    if isinstance(value, tuple):
        return tuple, tuple(map(identity, value))
    if is_numpy(value):
        return str(value.dtype), value.tobytes()
    return id(value)


def operand_of(k: Lowering, name: str, node: ast.AST, found: Any = _MISSING) -> Operand:
    """Returns the operand for a captured name, or for a Python object that was read from a captured module."""
    if found is _MISSING:
        captured = k.frame.captured
        try:
            found = captured(name)
        except KeyError:
            k.fail(node, f"`{name}` is not defined", _spelling(k, name))
        key = id(captured), name
        if key not in k.captures:
            k.captures[key] = Capture(partial(captured, name), identity(found), captured.watch(name))
    elif isinstance(node, ast.Attribute) and not isinstance(found, ModuleType | FunctionType):
        holder, attribute = _holder(k, node), node.attr
        if holder is not None:
            read = partial(getattr, holder, attribute)
            k.captures.setdefault((id(holder), attribute), Capture(read, identity(found), watched(holder, attribute)))
    return operand_from(k, found, name, node)


def is_captured(k: Lowering, name: str) -> bool:
    """Returns whether a name means something outside the open function."""
    try:
        k.frame.captured(name)
    except KeyError:
        return False
    return True


def _spelling(k: Lowering, name: str) -> str:
    """Returns what to do about a name that means nothing."""
    known = {*k.frame.env, *k.frame.names.plans, *k.frame.captured.function.__globals__}
    alike = get_close_matches(name, sorted(known), 1)
    if alike:
        return f"write `{alike[0]}` if that is meant; else assign `{name}` before, or make it a parameter."
    return f"assign `{name}` before, or make it a parameter."


def _holder(k: Lowering, node: ast.Attribute) -> Any:
    """Returns the module or the class whose attribute is read, if a name says which."""
    path: list[str] = []
    part: ast.expr = node.value
    while isinstance(part, ast.Attribute):
        path.append(part.attr)
        part = part.value
    if not isinstance(part, ast.Name):
        return None
    try:
        held = k.frame.captured(part.id)
        for name in reversed(path):
            held = getattr(held, name)
    except (KeyError, AttributeError):
        return None
    return held


def operand_from(k: Lowering, found: Any, name: str, node: ast.AST) -> Operand:
    """Returns the operand for a Python object; what may change is refused."""
    if isinstance(found, ScalarType):
        return Thing(found)
    if isinstance(found, bool | int | float):
        plain = bool(found) if isinstance(found, bool) else int(found) if isinstance(found, int) else float(found)
        if isinstance(found, float) and is_numpy(found):
            return Constant(plain, own_type(found))
        return Constant(plain)
    if isinstance(found, tuple):
        return Items(tuple(operand_from(k, item, name, node) for item in found))
    if is_numpy(found):
        number = python_number(found)
        if isinstance(number, bool | int | float):
            return Constant(number, own_type(found))
        k.fail(node, f"`{name}` is an array, which may change", f"pass it as a parameter, {name}: In[...].")
    if found is None or isinstance(found, str | range | Enum | ModuleType | type | FunctionType | BuiltinFunctionType):
        return Thing(found)
    if (
        isinstance(found, Inlined | Definition)
        or callable(found)
        or str(getattr(type(found), "__module__", "")) == "numpy"
    ):
        return Thing(found)
    k.fail(
        node,
        f"`{name}` is of the type {type(found).__name__}, whose values may change",
        "pass it as a parameter, or capture numbers and tuples of numbers.",
    )
