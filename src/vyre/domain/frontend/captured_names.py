"""What names outside the function of a kernel mean in it: each is read on behalf of the program, and is an operand.

This module decides which objects a kernel may capture.
"""

from __future__ import annotations

import ast
from collections import namedtuple
from enum import Enum
from inspect import getattr_static
from types import BuiltinFunctionType, FunctionType, MemberDescriptorType, ModuleType
from typing import Any, Final

from vyre.domain.frontend.captures import Capture, is_array, is_dtype, is_plain
from vyre.domain.frontend.lowering import Lowering
from vyre.domain.frontend.operands import Constant, Items, Operand, Thing
from vyre.domain.ir.definitions import Definition
from vyre.domain.ir.foreign_names import closest
from vyre.domain.ir.numpy_scalars import PYTHON_NUMBERS, is_numpy, python_number, value_type
from vyre.domain.ir.types import ScalarType


def read(k: Lowering, holder: Any, name: str) -> Any:
    """Returns what a dictionary or an object holds under a name, on which the program depends from now on."""
    key = id(holder), name
    known = k.captures.get(key)
    if known is None:
        known = k.captures[key] = Capture.of(holder, name)
    return known.held


def captured(k: Lowering, name: str, node: ast.AST) -> Any:
    """Returns the object that a name outside the open function means."""
    try:
        return k.frame.captured(name, lambda holder, key: read(k, holder, key))
    except KeyError:
        k.fail(node, f"`{name}` is not defined", _spelling(k, name))


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
    alike = closest(name, sorted(known))
    if alike:
        return f"write `{alike}` if that is meant; else assign `{name}` before, or make it a parameter."
    return f"assign `{name}` before, or make it a parameter."


def annotated_type(k: Lowering, node: ast.expr) -> ScalarType | None:
    """Returns the type that an annotation in the body names, or None; its names are captures."""
    for one in ast.walk(node):
        if isinstance(one, ast.Name) and is_captured(k, one.id):
            captured(k, one.id, one)
    meaning = k.annotation(node)
    return meaning if isinstance(meaning, ScalarType) else value_type(meaning)


_STORED: Final = (staticmethod, MemberDescriptorType, type(vars(namedtuple("Pair", "x"))["x"]))
"""What stands in a class for something that is stored, so that reading it runs no code of the user's."""


def member(k: Lowering, holder: Any, name: str) -> Any:
    """Returns an attribute of an object; raises ``AttributeError`` where there is none, or code would compute it."""
    if isinstance(holder, ModuleType):
        return read(k, holder, name)
    stored = getattr_static(holder, name)
    is_stored = isinstance(stored, _STORED) or not hasattr(type(stored), "__get__")
    of_enum = isinstance(holder, Enum) and name in ("name", "value") and stored is getattr_static(Enum, name)
    is_function = isinstance(stored, FunctionType | BuiltinFunctionType)
    if not (is_stored or of_enum or is_function) or isinstance(type(holder).__getattribute__, FunctionType):
        raise AttributeError(name)
    value = read(k, holder, name)
    if is_function and value is not stored:
        raise AttributeError(name)  # a method of an object
    return value


# ---------------------------------------------------------------- operands
def operand_from(k: Lowering, value: Any, name: str, node: ast.AST) -> Operand:
    """Returns the operand for a Python object; what may change unseen is refused."""
    if (isinstance(value, bool | int | float | str | tuple | Enum) or is_numpy(value)) and not is_plain(value):
        kind = type(value).__name__
        k.fail(node, f"`{name}` is of the type {kind}, which has operators of its own", "capture its plain value.")
    if is_numpy(value) and not isinstance(value, str):
        is_number = is_array(value) or not hasattr(value, "__array_finalize__")
        if is_number and type(python_number(value)) in PYTHON_NUMBERS:
            return Constant(value.copy() if is_array(value) else value)
        if value.ndim == 0:
            k.fail(node, f"`{name}` is a {value.dtype} of NumPy, which kernels do not have", "capture a real number.")
        k.fail(node, f"`{name}` is an array, which may change", f"pass it as a parameter, {name}: In[...].")
    if isinstance(value, bool | int | float):
        return Constant(value)
    if isinstance(value, tuple):
        return Items(tuple([operand_from(k, item, name, node) for item in value]))
    if value is None or isinstance(value, str | range | Enum | ModuleType | type | Definition) or callable(value):
        return Thing(value)
    if is_dtype(value) or str(getattr(type(value), "__module__", "")) == "numpy":
        return Thing(value)
    k.fail(
        node,
        f"`{name}` is of the type {type(value).__name__}, whose values may change",
        "pass it as a parameter, or capture numbers and tuples of numbers.",
    )
