"""Captures are the objects that a kernel names outside its own function: numbers, texts, types, modules, functions.

This module says how each is found, how it is read again at every call, and what tells values apart;
``captured_names`` says what they mean in a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any, Final, NamedTuple, TypeVar

from vyre.domain.ir.numpy_scalars import is_numpy
from vyre.domain.ir.types import ScalarType
from vyre.domain.value_identity import identity

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

    @classmethod
    def of(cls, holder: Any, name: str) -> Capture:
        """Returns what a dictionary or an object holds under a name now."""
        value = _held(holder, name)
        return cls(holder, name, value, identity(value))

    def again(self) -> Capture | None:
        """Returns the capture as it is now; None where it has another value."""
        try:
            value = _held(self.holder, self.name)
            return self._replace(held=value) if identity(value) == self.value else None
        except _FAILURES:
            return None


def _held(holder: Any, name: str) -> Any:
    return dict.get(holder, name, _ABSENT) if isinstance(holder, dict) else getattr(holder, name)


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
                value = look(function.__closure__[free.index(name)], "cell_contents")
            except ValueError:
                raise KeyError(name) from None
        else:
            value = look(function.__globals__, name)
            if value is _ABSENT:
                value = look(function.__builtins__, name)
            if value is _ABSENT:
                raise KeyError(name)
        return self.types.get(value.__name__, value) if isinstance(value, TypeVar) else value


def is_dtype(value: object) -> bool:
    """Returns whether a value is a type of NumPy's arrays: ``numpy.dtype("f4")``."""
    return any(f"{base.__module__}.{base.__name__}" == "numpy.dtype" for base in type(value).__mro__)
