"""Captures are the objects that a kernel names outside its own function: numbers, texts, types, modules, functions.

This module decides which objects those may be, how each is read again at every call, and what tells values apart.
"""

from __future__ import annotations

import ast
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from inspect import getattr_static
from types import BuiltinFunctionType, CodeType, FunctionType, MemberDescriptorType, ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from vyre.domain.frontend.operands import Constant, Items, Operand, Thing
from vyre.domain.ir.definitions import Definition
from vyre.domain.ir.foreign_names import closest
from vyre.domain.ir.numpy_scalars import PYTHON_NUMBERS, is_numpy, python_number
from vyre.domain.ir.types import ScalarType
from vyre.domain.value_identity import identity

if TYPE_CHECKING:
    from vyre.domain.frontend.lowering import Lowering

_ABSENT: Final = object()
"""The value that stands for a name that means nothing."""
_FAILURES: Final = (AttributeError, KeyError, ValueError, RecursionError)
"""The exceptions of reading a name, or telling its value apart, after it has changed."""


def is_array(value: object) -> bool:
    """Returns whether a value is an array of NumPy, which may be changed in place, or holds one."""
    if isinstance(value, tuple):
        return any(map(is_array, value))
    return type(value).__name__ == "ndarray" and is_numpy(value)


_NO_OPERATORS: Final = {"__new__", "__repr__", "__str__", "__format__", "__doc__", "__hash__", "__getnewargs__"}
_OPERATORS: Final = {name for kind in (int, float, str, tuple) for name in vars(kind)} - _NO_OPERATORS
_OPERATIONS: Final = {name for name in _OPERATORS if name.startswith("__")} | {f"__i{name[2:]}" for name in _OPERATORS}
"""The methods of numbers, texts and tuples by which Python computes with them and compares them."""
_PLAIN_PACKAGES: Final = ("builtins", "numpy", "enum", "types", "vyre", "ml_dtypes")


def is_plain(value: object) -> bool:
    """Returns whether Python's operators on a value are those of its own types, which nothing changes."""
    if isinstance(value, tuple) and not all(map(is_plain, value)):
        return False
    for base in type(value).__mro__:
        if base.__module__.partition(".")[0] in _PLAIN_PACKAGES:
            continue
        for name in _OPERATIONS & vars(base).keys():
            if getattr(vars(base)[name], "__module__", None) != "enum":
                return False
    return True


# ---------------------------------------------------------------- reading again
class Capture(NamedTuple):
    """An object on which a program depends: the name in a dictionary, or the attribute of an object, that holds it.

    ``value`` tells its value apart from others.
    """

    holder: Any
    name: str
    held: Any
    value: object

    def again(self) -> Capture | None:
        """Returns the capture as it is now; None where it has another value."""
        try:
            held = _held(self.holder, self.name)
            return self._replace(held=held) if identity(held) == self.value else None
        except _FAILURES:
            return None


def _held(holder: Any, name: str) -> Any:
    return dict.get(holder, name, _ABSENT) if isinstance(holder, dict) else getattr(holder, name)


def read(k: Lowering, holder: Any, name: str) -> Any:
    """Returns what a dictionary or an object holds under a name, on which the program depends from now on."""
    key = id(holder), name
    known = k.captures.get(key)
    if known is None:
        held = _held(holder, name)
        known = k.captures[key] = Capture(holder, name, held, identity(held))
    return known.held


def guard(captures: Sequence[Capture]) -> Callable[[], bool]:
    """Returns a function that sees, at little cost, that all captures are the same objects.

    The function is written and compiled, since warm calls run it.
    """
    known: dict[str, Any] = {"identity": identity, "failures": _FAILURES}
    checks = ["True"]
    for number, one in enumerate(captures):
        is_item, has_identity = isinstance(one.holder, dict), not is_array(one.held)
        known[f"o{number}"], known[f"h{number}"] = one.holder, one.held if has_identity else one.value
        now = f"o{number}[{one.name!r}]" if is_item else f"o{number}.{one.name}"
        if one.held is _ABSENT:
            checks.append(f"{one.name!r} not in o{number}")
        else:
            checks.append(f"{now} is h{number}" if has_identity else f"identity({now}) == h{number}")
    return FunctionType(_guard_code(" and ".join(checks)), known, "unchanged")


@lru_cache(maxsize=256)
def _guard_code(checks: str) -> CodeType:
    text = f"def unchanged():\n  try:\n    return {checks}\n  except failures:\n    return False"
    module = compile(text, "<vyre guard>", "exec")
    return next(one for one in module.co_consts if isinstance(one, CodeType))


# ---------------------------------------------------------------- names
class Captured:
    """The objects of names that are not local to a function.

    ``types`` are the types that type parameters of a generic kernel stand for, by name.
    """

    __slots__ = ("_own", "function", "types")

    def __init__(self, function: FunctionType, types: Mapping[str, ScalarType] | None = None) -> None:
        self.function: Final = function
        self.types: Final[Mapping[str, ScalarType]] = {} if types is None else types
        self._own: Final = {one.__name__: one for one in getattr(function, "__type_params__", ())}

    def __call__(self, name: str, look: Callable[[Any, str], Any] = _held) -> Any:
        """Returns what ``name`` means now; raises ``KeyError`` where it means nothing.  ``look`` reads from holders."""
        if name in self.types:
            return self.types[name]
        if name in self._own:
            return self._own[name]
        function: Any = self.function
        free = function.__code__.co_freevars
        if name in free and function.__closure__ is not None:
            try:
                found = look(function.__closure__[free.index(name)], "cell_contents")
            except ValueError:
                raise KeyError(name) from None
        else:
            found = look(function.__globals__, name)
            if found is _ABSENT:
                found = look(function.__builtins__, name)
            if found is _ABSENT:
                raise KeyError(name)
        return self.types.get(found.__name__, found) if isinstance(found, TypeVar) else found


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
    found = read(k, holder, name)
    if is_function and found is not stored:
        raise AttributeError(name)  # a method of an object
    return found


# ---------------------------------------------------------------- operands
def operand_from(k: Lowering, found: Any, name: str, node: ast.AST) -> Operand:
    """Returns the operand for a Python object; what may change unseen is refused."""
    if (isinstance(found, bool | int | float | str | tuple | Enum) or is_numpy(found)) and not is_plain(found):
        kind = type(found).__name__
        k.fail(node, f"`{name}` is of the type {kind}, which has operators of its own", "capture its plain value.")
    if is_numpy(found) and not isinstance(found, str):
        is_number = is_array(found) or not hasattr(found, "__array_finalize__")
        if is_number and type(python_number(found)) in PYTHON_NUMBERS:
            return Constant(found.copy() if is_array(found) else found)
        if found.ndim == 0:
            k.fail(node, f"`{name}` is a {found.dtype} of NumPy, which kernels do not have", "capture a real number.")
        k.fail(node, f"`{name}` is an array, which may change", f"pass it as a parameter, {name}: In[...].")
    if isinstance(found, bool | int | float):
        return Constant(found)
    if isinstance(found, tuple):
        return Items(tuple([operand_from(k, item, name, node) for item in found]))
    if found is None or isinstance(found, str | range | Enum | ModuleType | type | Definition) or callable(found):
        return Thing(found)
    if is_dtype(found) or str(getattr(type(found), "__module__", "")) == "numpy":
        return Thing(found)
    k.fail(
        node,
        f"`{name}` is of the type {type(found).__name__}, whose values may change",
        "pass it as a parameter, or capture numbers and tuples of numbers.",
    )


def is_dtype(value: object) -> bool:
    """Returns whether a value is a type of NumPy's arrays: ``numpy.dtype("f4")``."""
    return any(f"{base.__module__}.{base.__name__}" == "numpy.dtype" for base in type(value).__mro__)
