"""What type checkers see of ``f32`` and its like: classes whose values are Python numbers and ``Value`` at once.

At run time ``f32`` is the member ``ScalarType.F32`` (``vyre.domain.ir.types``), and this file is never read.

A value of a kernel behaves as a number of Python, so that ``range(n)``, ``min(a, b)``, ``acc += x[i]`` and a comparison
in an ``if`` check; numbers of Python take its type, and values of other types are refused, as vyre refuses them.

To mypy results are ``f32 | Any``: an attribute or a use that f32 does not have is refused, and a variable that starts
as such a result may later hold a number of Python (``v = x[i]`` and then ``v = 0.0``), as variables of a kernel do.
To other checkers, which infer the type of a variable from all of its assignments, results are ``f32``.
"""

# mypy: disable-error-code="override, misc, assignment, overload-overlap"

from typing import Any, ClassVar, Final, Generic, NoReturn, Protocol, TypeAlias, TypeVar, overload

import numpy as np

from vyre.domain.identity_enum import IdentityEnum
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.value import Number, TypeLike, Value

class PythonNumber(Protocol):
    """``float``, ``int`` and ``bool`` of Python, and no value of vyre, which lacks the method."""

    def as_integer_ratio(self) -> tuple[int, int]: ...

class PythonInteger(Protocol):
    """``int`` and ``bool`` of Python, and no value of vyre, which lacks the method."""

    def bit_length(self) -> int: ...

AnyReal: TypeAlias = PythonNumber | np.integer[Any] | np.floating[Any]
AnyInteger: TypeAlias = PythonInteger | np.integer[Any]
AnyTruth: TypeAlias = bool | np.bool_

_W = TypeVar("_W", bound=Value)
_N = TypeVar("_N")
_V = TypeVar("_V", bound=Value)
_R = TypeVar("_R")

MYPY: Final = False  # mypy takes a name that is written so for true
if not MYPY:
    _Loose: TypeAlias = NoReturn
else:
    _Loose: TypeAlias = Any
Result: TypeAlias = _R | _Loose

class TypeOfValues(type, IdentityEnum):
    """The base of ``ScalarType``: an enumeration and a metaclass.  The end of its module explains why."""

    @overload
    def __call__(cls: type[_V], value: Number) -> _V: ...
    @overload
    def __call__(self, value: Number) -> Value:
        """Returns a literal of this type for the builder: ``i32(4)``.  Raises ``BuildError`` out of range."""

class TypedValue(Value, Generic[_W, _N], metaclass=ScalarType):
    """A value, or the type of an element.

    ``_W``: the type of what a load of an element gives; ``_N``: the numbers that may stand beside it.
    """

    def __init__(self, value: Number) -> None: ...

    as_integer_ratio: ClassVar[None]
    bit_length: ClassVar[None]
    bit_count: ClassVar[None]
    conjugate: ClassVar[None]
    from_bytes: ClassVar[None]
    fromhex: ClassVar[None]
    hex: ClassVar[None]
    is_integer: ClassVar[None]
    to_bytes: ClassVar[None]
    real: ClassVar[None]
    imag: ClassVar[None]
    numerator: ClassVar[None]
    denominator: ClassVar[None]

    @overload
    def cast(self, dtype: type[_V]) -> Result[_V]: ...
    @overload
    def cast(self, dtype: TypeLike) -> Value: ...
    @overload
    def bitcast(self, dtype: type[_V]) -> Result[_V]: ...
    @overload
    def bitcast(self, dtype: TypeLike) -> Value: ...
    def __eq__(self, other: _W | _N) -> Result[bool_]: ...
    def __ne__(self, other: _W | _N) -> Result[bool_]: ...

class _Ordered(TypedValue[_W, _N]):
    def __add__(self, other: _W | _N) -> Result[_W]: ...
    def __radd__(self, other: _W | _N) -> Result[_W]: ...
    def __sub__(self, other: _W | _N) -> Result[_W]: ...
    def __rsub__(self, other: _W | _N) -> Result[_W]: ...
    def __mul__(self, other: _W | _N) -> Result[_W]: ...
    def __rmul__(self, other: _W | _N) -> Result[_W]: ...
    def __pow__(self, other: int, modulo: None = None) -> Result[_W]: ...
    __rpow__: ClassVar[None]
    def __lt__(self, other: _W | _N) -> Result[bool_]: ...
    def __le__(self, other: _W | _N) -> Result[bool_]: ...
    def __gt__(self, other: _W | _N) -> Result[bool_]: ...
    def __ge__(self, other: _W | _N) -> Result[bool_]: ...
    def __neg__(self) -> Result[_W]: ...
    def __pos__(self) -> Result[_W]: ...
    def __abs__(self) -> Result[_W]: ...
    def __round__(self) -> Result[_W]: ...
    def __trunc__(self) -> Result[_W]: ...
    def __floor__(self) -> Result[_W]: ...
    def __ceil__(self) -> Result[_W]: ...

class Float(_Ordered[_W, AnyReal], float):
    """A float of any width."""

    def __truediv__(self, other: _W | AnyReal) -> Result[_W]: ...
    def __rtruediv__(self, other: _W | AnyReal) -> Result[_W]: ...
    __index__: ClassVar[None]
    __floordiv__: ClassVar[None]
    __rfloordiv__: ClassVar[None]
    __mod__: ClassVar[None]
    __rmod__: ClassVar[None]
    __divmod__: ClassVar[None]
    __rdivmod__: ClassVar[None]
    __and__: ClassVar[None]
    __rand__: ClassVar[None]
    __or__: ClassVar[None]
    __ror__: ClassVar[None]
    __xor__: ClassVar[None]
    __rxor__: ClassVar[None]
    __lshift__: ClassVar[None]
    __rlshift__: ClassVar[None]
    __rshift__: ClassVar[None]
    __rrshift__: ClassVar[None]
    __invert__: ClassVar[None]

class Integer(_Ordered[_W, AnyInteger], int):
    """An integer of any width."""

    def __floordiv__(self, other: _W | AnyInteger) -> Result[_W]: ...
    def __rfloordiv__(self, other: _W | AnyInteger) -> Result[_W]: ...
    def __mod__(self, other: _W | AnyInteger) -> Result[_W]: ...
    def __rmod__(self, other: _W | AnyInteger) -> Result[_W]: ...
    def __divmod__(self, other: _W | AnyInteger) -> tuple[Result[_W], Result[_W]]: ...
    def __rdivmod__(self, other: _W | AnyInteger) -> tuple[Result[_W], Result[_W]]: ...
    def __truediv__(self, other: _W | AnyInteger) -> Result[f32]: ...
    def __rtruediv__(self, other: _W | AnyInteger) -> Result[f32]: ...
    def __and__(self, other: _W | AnyInteger) -> Result[_W]: ...
    def __rand__(self, other: _W | AnyInteger) -> Result[_W]: ...
    def __or__(self, other: _W | AnyInteger) -> Result[_W]: ...
    def __ror__(self, other: _W | AnyInteger) -> Result[_W]: ...
    def __xor__(self, other: _W | AnyInteger) -> Result[_W]: ...
    def __rxor__(self, other: _W | AnyInteger) -> Result[_W]: ...
    def __lshift__(self, other: _W | AnyInteger | u32) -> Result[_W]: ...
    def __rlshift__(self, other: _W | AnyInteger) -> Result[_W]: ...
    def __rshift__(self, other: _W | AnyInteger | u32) -> Result[_W]: ...
    def __rrshift__(self, other: _W | AnyInteger) -> Result[_W]: ...
    def __invert__(self) -> Result[_W]: ...

class u32(Integer[u32]):
    """An unsigned 32-bit integer."""

class i32(Integer[i32]):
    """A signed 32-bit integer."""

class u64(Integer[u64]):
    """An unsigned 64-bit integer."""

class i64(Integer[i64]):
    """A signed 64-bit integer."""

class f32(Float[f32]):
    """An IEEE-754 binary32 number."""

class f64(Float[f64]):
    """An IEEE-754 binary64 number."""

class bool_(TypedValue[bool_, AnyTruth], bool):  # pyright: ignore
    """A truth value, a 32-bit word in buffers."""

    def __and__(self, other: bool_ | AnyTruth) -> Result[bool_]: ...
    def __rand__(self, other: bool_ | AnyTruth) -> Result[bool_]: ...
    def __or__(self, other: bool_ | AnyTruth) -> Result[bool_]: ...
    def __ror__(self, other: bool_ | AnyTruth) -> Result[bool_]: ...
    def __xor__(self, other: bool_ | AnyTruth) -> Result[bool_]: ...
    def __rxor__(self, other: bool_ | AnyTruth) -> Result[bool_]: ...
    def __invert__(self) -> Result[bool_]: ...

class u8(Integer[u32]):
    """An unsigned 8-bit integer, in buffers only; loads give u32."""

class u16(Integer[u32]):
    """An unsigned 16-bit integer, in buffers only; loads give u32."""

class i8(Integer[i32]):
    """A signed 8-bit integer, in buffers only; loads give i32."""

class i16(Integer[i32]):
    """A signed 16-bit integer, in buffers only; loads give i32."""

class f16(Float[f32]):
    """An IEEE-754 binary16 number, in buffers only; loads give f32."""

class bf16(Float[f32]):
    """A bfloat16 number, in buffers only; loads give f32."""

class bool8(TypedValue[bool_, AnyTruth]):
    """A truth value in one byte, in buffers only; loads give bool."""
