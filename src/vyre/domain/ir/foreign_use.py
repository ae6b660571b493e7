"""Errors for unsupported uses of builders, buffers and values by Python or NumPy, each with a replacement.

The methods exist at run time only, so that type checkers still refuse these uses.  The ``__getattr__`` methods leave
names that begin with an underscore to Python, because copying, pickling, inspection and array protocols probe for
them.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Final, NoReturn

from vyre.domain.errors import UnboundVariable, UnknownAttribute, UnsupportedUse
from vyre.domain.ir.caller import caller_location, given_location, user_frames, users_line, users_name
from vyre.domain.ir.foreign_names import BUFFER, BUILDER, SWITCH, VALUE, Hints, attribute_hint, function_hint
from vyre.domain.ir.numpy_scalars import is_numpy, python_number
from vyre.domain.printable import shown
from vyre.domain.source_location import UNSHOWN, SourceLocation


def refuse(message: str, fix: str) -> NoReturn:
    """Raises ``UnsupportedUse``, which is a ``BuildError`` and a ``TypeError``, at the user's line."""
    raise UnsupportedUse(message, fix=fix, loc=users_line())


def named(thing: object, kind: str) -> str:
    """Returns the user's name of ``thing``, followed by its kind in brackets, or the kind if it has no name."""
    name = called(thing)
    if name is None and isinstance(thing, ForeignBufferUse):
        name = getattr(thing, "name", None)
    return f"`{name}` ({kind})" if name is not None else kind


def called(thing: object) -> str | None:
    """Returns the name that the user's code has for ``thing``, if it has one."""
    return users_name(lambda value: value is thing)


def _addressed(fix: str, placeholder: str, thing: object) -> str:
    """Returns the fix with the user's name of ``thing`` where it stands before a dot or an index."""
    name = called(thing)
    return fix if name is None else re.sub(rf"\b{placeholder}(?=[.\[])", name, fix)


def explain_unbound(error: BaseException) -> None:
    """Raises ``UnboundVariable`` if ``error`` results from ``v += 1`` in a function that does not declare ``v``
    nonlocal.
    """
    trace = error.__traceback__
    if type(error) is not UnboundLocalError or trace is None:
        return
    from traceback import walk_tb  # only for errors

    frames = [frame for frame, _ in walk_tb(trace)]
    (line,) = (line for frame, line in walk_tb(trace) if frame is frames[-1])
    raising = frames[-1].f_code
    for name in (name for name in raising.co_varnames if f"'{name}'" in str(error)):
        for frame in (*reversed(frames[:-1]), *user_frames()):
            value = frame.f_locals.get(name)
            if isinstance(value, ForeignValueUse | ForeignBufferUse):
                raise UnboundVariable(
                    f"{raising.co_name}() assigns to `{name}`, so Python takes it for a local of that function, which "
                    "has no value yet",
                    fix=f"for a p.var write {name}.assign(...) there; or declare `nonlocal {name}` (`global` for a "
                    "name of the module).",
                    loc=given_location() or SourceLocation(raising.co_filename, line, None, UNSHOWN),
                ) from error


def _unknown(thing: object, name: str, kind: str, owner: str, hints: Hints) -> NoReturn:
    attributes = [known for known in dir(type(thing)) if not known.startswith("_")]
    if name.startswith("_") or name in attributes:  # private, or a property that raised an AttributeError
        raise AttributeError(f"{type(thing).__name__!r} object has no attribute {name!r}")
    hint = attribute_hint(owner, name, hints, attributes) or f"use one of {', '.join(attributes)}"
    raise UnknownAttribute(
        f"{named(thing, kind)} has no attribute `{name}`",
        fix=_addressed(hint, owner, thing) + ".",
        loc=caller_location(),
    )


def _refusing(what: str, fix: str, kind: str) -> Callable[..., NoReturn]:
    def method(self: object, *_: object, **__: object) -> NoReturn:
        refuse(f"{what} {named(self, kind)}", _addressed(fix, _PLACEHOLDERS[kind], self))

    return method


_VALUE: Final = "a value"
_BUFFER: Final = "a buffer"
_BUILDER: Final = "the builder"
_SWITCH: Final = "the arms of a switch"
_PLACEHOLDERS: Final = {_VALUE: "x", _BUFFER: "buffer"}
"""The name that stands in fixes for a thing of this kind."""


def _numpy_fix(function: str) -> str:
    return f"{function_hint(function) or 'use operators and functions of vyre'}."


_OPERATORS: Final[Mapping[str, Callable[..., object]]] = MappingProxyType(
    {
        "add": operator.add,
        "subtract": operator.sub,
        "multiply": operator.mul,
        "divide": operator.truediv,
        "floor_divide": operator.floordiv,
        "remainder": operator.mod,
        "divmod": divmod,
        "power": operator.pow,
        "matmul": operator.matmul,
        "bitwise_and": operator.and_,
        "bitwise_or": operator.or_,
        "bitwise_xor": operator.xor,
        "left_shift": operator.lshift,
        "right_shift": operator.rshift,
        "less": operator.lt,
        "less_equal": operator.le,
        "greater": operator.gt,
        "greater_equal": operator.ge,
        "equal": operator.eq,
        "not_equal": operator.ne,
    }
)
"""The operator for which a NumPy scalar calls each of these functions of NumPy."""


def refuse_array(array: object) -> NoReturn:
    """Raises ``UnsupportedUse`` for an array, or a scalar of no number, where one element is needed."""
    refuse(
        f"{shown(array)} ({type(array).__name__}) is neither a value nor a number",
        "use an element of the array, or pass it to the kernel as a p.input buffer."
        if getattr(array, "shape", ())
        else "use an int, a float or a bool of Python or NumPy, or an expression.",
    )


def set_attribute(thing: object, name: str, value: object, kind: str, fix: str) -> None:
    """Sets a private attribute, and raises ``UnknownAttribute`` for others: they are read-only, or never read."""
    if name.startswith("_"):
        object.__setattr__(thing, name, value)
        return
    refused = f"`{name}` of {named(thing, kind)} is read-only" if name in dir(type(thing)) else None
    raise UnknownAttribute(refused or f"{named(thing, kind)} has no attribute `{name}`", fix=fix, loc=caller_location())


class _NoArray:
    """NumPy's array protocols; all of them raise an error."""

    __slots__ = ()
    _KIND: ClassVar[str]

    if not TYPE_CHECKING:

        def __array__(self, *_: object, **__: object) -> NoReturn:
            refuse(
                f"NumPy cannot make an array of {named(self, self._KIND)}, which is not known yet",
                "use operators and functions of vyre; an array that the kernel indexes is a p.input buffer, and "
                "session.dispatch returns arrays.",
            )

        def __array_function__(self, function, *_: object) -> NoReturn:
            refuse(f"np.{function.__name__} cannot take {named(self, self._KIND)}", _numpy_fix(function.__name__))

        def __array_ufunc__(self, ufunc, method: str, *inputs: object, **out: object) -> object:
            """Applies the operator for which NumPy calls ``ufunc`` to a NumPy scalar and a value."""
            known = _OPERATORS.get(ufunc.__name__) if method == "__call__" and not out else None
            numbers = [python_number(one) for one in inputs]
            if known is not None and any(a is not b for a, b in zip(numbers, inputs, strict=True)):
                return known(*numbers)
            for one in inputs:
                if is_numpy(one):
                    refuse_array(one)
            refuse(f"np.{ufunc.__name__} cannot take {named(self, self._KIND)}", _numpy_fix(ufunc.__name__))


class ForeignBuilderUse:
    """A mixin for the builder that explains unknown attributes."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            _unknown(self, name, _BUILDER, "p", BUILDER)

        def __setattr__(self, name: str, value: object) -> None:
            set_attribute(self, name, value, _BUILDER, "keep what is yours in a Python variable.")

        def __call__(self, *_: object, **__: object) -> NoReturn:
            refuse(
                "a builder is neither called nor a decorator",
                'write `with ProgramBuilder("name", workgroup=64) as p:` and the statements of the kernel inside.',
            )


class ForeignSwitchUse:
    """A mixin for the arms of a switch that explains unknown attributes."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            _unknown(self, name, _SWITCH, "s", SWITCH)


class ForeignValueUse(_NoArray):
    """A mixin for values that explains unknown attributes and unsupported operations."""

    __slots__ = ()
    _KIND = _VALUE

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            _unknown(self, name, _VALUE, "x", VALUE)

        __len__ = _refusing("len() cannot take", "a value is one scalar; a buffer has .length.", _VALUE)
        __pow__ = __rpow__ = __ipow__ = _refusing(
            "** cannot take", "multiply, x * x, or write exp2(y * log2(x)) for x > 0.", _VALUE
        )
        __matmul__ = __rmatmul__ = _refusing("@ cannot take", "write the loop over p.for_ that adds products.", _VALUE)
        __divmod__ = __rdivmod__ = _refusing("divmod() cannot take", "write a / b and a % b.", _VALUE)
        __pos__ = _refusing("unary + cannot take", "leave the + out.", _VALUE)
        __round__ = _refusing(
            "round() cannot take", "write round_even(x), which rounds as Python does, or round_(x).", _VALUE
        )
        __floor__ = _refusing("math.floor() cannot take", "write floor(x), a function of vyre.", _VALUE)
        __ceil__ = _refusing("math.ceil() cannot take", "write ceil(x), a function of vyre.", _VALUE)
        __trunc__ = _refusing("math.trunc() cannot take", "write trunc(x), a function of vyre.", _VALUE)
        __getitem__ = _refusing(
            "there are no elements in", "index the buffer instead; a p.param is one scalar.", _VALUE
        )
        __setitem__ = _refusing(
            "there are no elements in", "index a buffer: y[i] = x; assign to a variable: v.assign(x).", _VALUE
        )
        __contains__ = _refusing("`in` cannot look into", "compare with ==, and join comparisons with |.", _VALUE)

        def __format__(self, spec: str) -> str:
            if spec:
                refuse(
                    f"{named(self, _VALUE)} cannot be formatted as {spec!r}: it is not known while the kernel is built",
                    "store it to an output buffer, and format what session.dispatch returns.",
                )
            return repr(self)


_INDEX: Final = "index the buffer: buffer[i] is a value."
_BINARY: Final = "add sub mul truediv floordiv mod divmod pow matmul and or xor lshift rshift"
_OTHERS: Final = "neg pos invert abs round floor ceil trunc int float complex index lt le gt ge"


class ForeignBufferUse(_NoArray):
    """A mixin for buffers that explains unknown attributes and unsupported operations."""

    __slots__ = ()
    _KIND = _BUFFER

    if not TYPE_CHECKING:
        __hash__ = object.__hash__

        def __getattr__(self, name: str) -> NoReturn:
            _unknown(self, name, _BUFFER, "buffer", BUFFER)

        def __setattr__(self, name: str, value: object) -> None:
            set_attribute(self, name, value, _BUFFER, "write buffer[i] = x to store an element.")

        def __eq__(self, other: object) -> bool:
            if isinstance(other, ForeignValueUse | int | float):
                refuse(
                    f"a comparison cannot take {named(self, _BUFFER)} as a whole", _addressed(_INDEX, "buffer", self)
                )
            return self is other

        __bool__ = _refusing(
            "Python cannot test", "test an element, buffer[i] != 0, or buffer.length > 0, in p.if_(...).", _BUFFER
        )
        __len__ = _refusing(
            "len() cannot take", "write buffer.length, which is a u32 value: it is known at the dispatch.", _BUFFER
        )
        __contains__ = _refusing("`in` cannot look into", "compare the elements in a loop over p.for_.", _BUFFER)
        __reversed__ = _refusing("reversed() cannot take", "write buffer[buffer.length - 1 - k] in a loop.", _BUFFER)
        __delitem__ = _refusing("nothing can be deleted from", "store another element.", _BUFFER)
        __call__ = _refusing("() cannot follow", "write [ ]: buffer[i].", _BUFFER)


for _name in (*_BINARY.split(), *(f"r{name}" for name in _BINARY.split()), *_OTHERS.split()):
    setattr(
        ForeignBufferUse, f"__{_name}__", _refusing("an operator or function of numbers cannot take", _INDEX, _BUFFER)
    )
