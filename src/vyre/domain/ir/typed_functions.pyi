"""What type checkers see of the functions over values: the type of a result follows from the types of the operands.

Typed values give their own type, numbers of Python that of a constant, and values of the builder, whose type is not
written down, ``Value``.  At run time this file is never read.
"""

# mypy: disable-error-code="overload-overlap"

from typing import Any, Final, Protocol, TypeVar, overload

from vyre.domain.ir.typed_values import (
    AnyInteger,
    AnyReal,
    AnyTruth,
    Float,
    Integer,
    Result,
    TypedValue,
    bool_,
    f32,
    u32,
)
from vyre.domain.ir.value import Operand, TypeLike, Value

_W = TypeVar("_W", bound=Value)
_N = TypeVar("_N")

class OfF32(Protocol):
    """A function of f32."""

    @overload
    def __call__(self, x: f32 | AnyReal) -> Result[f32]: ...
    @overload
    def __call__(self, x: Operand) -> Value: ...

class OfFloat(Protocol):
    """A function of f32 or f64."""

    @overload
    def __call__(self, x: Float[_W]) -> Result[_W]: ...
    @overload
    def __call__(self, x: AnyReal) -> Result[f32]: ...
    @overload
    def __call__(self, x: Operand) -> Value: ...

class OfInteger(Protocol):
    """A function of an integer."""

    @overload
    def __call__(self, x: Integer[_W]) -> Result[_W]: ...
    @overload
    def __call__(self, x: AnyInteger) -> Result[u32]: ...
    @overload
    def __call__(self, x: Operand) -> Value: ...

class OfNumber(Protocol):
    """A function of an integer or a float."""

    @overload
    def __call__(self, x: Integer[_W]) -> Result[_W]: ...
    @overload
    def __call__(self, x: Float[_W]) -> Result[_W]: ...
    @overload
    def __call__(self, x: AnyInteger) -> Result[u32]: ...
    @overload
    def __call__(self, x: AnyReal) -> Result[f32]: ...
    @overload
    def __call__(self, x: Operand) -> Value: ...

class Classification(Protocol):
    """A question about an f32 or f64."""

    @overload
    def __call__(self, x: Float[Any] | AnyReal) -> Result[bool_]: ...
    @overload
    def __call__(self, x: Operand) -> Value: ...

class OfIntegers(Protocol):
    """A function of two integers of one type."""

    @overload
    def __call__(self, a: Integer[_W], b: _W | AnyInteger) -> Result[_W]: ...
    @overload
    def __call__(self, a: AnyInteger, b: Integer[_W]) -> Result[_W]: ...
    @overload
    def __call__(self, a: AnyInteger, b: AnyInteger) -> Result[u32]: ...
    @overload
    def __call__(self, a: Operand, b: Operand) -> Value: ...

class Rotation(Protocol):
    """A function of an integer and a count, which may be u32."""

    @overload
    def __call__(self, a: Integer[_W], b: _W | u32 | AnyInteger) -> Result[_W]: ...
    @overload
    def __call__(self, a: AnyInteger, b: Integer[_W]) -> Result[_W]: ...
    @overload
    def __call__(self, a: AnyInteger, b: AnyInteger) -> Result[u32]: ...
    @overload
    def __call__(self, a: Operand, b: Operand) -> Value: ...

class OfNumbers(Protocol):
    """A function of two integers, or two floats, of one type."""

    @overload
    def __call__(self, a: Integer[_W], b: _W | AnyInteger) -> Result[_W]: ...
    @overload
    def __call__(self, a: AnyInteger, b: Integer[_W]) -> Result[_W]: ...
    @overload
    def __call__(self, a: Float[_W], b: _W | AnyReal) -> Result[_W]: ...
    @overload
    def __call__(self, a: AnyReal, b: Float[_W]) -> Result[_W]: ...
    @overload
    def __call__(self, a: AnyInteger, b: AnyInteger) -> Result[u32]: ...
    @overload
    def __call__(self, a: AnyReal, b: AnyReal) -> Result[f32]: ...
    @overload
    def __call__(self, a: Operand, b: Operand) -> Value: ...

class OfLaneIntegers(Protocol):
    """A function of the integers of the lanes of a subgroup."""

    @overload
    def __call__(self, value: Integer[_W]) -> Result[_W]: ...
    @overload
    def __call__(self, value: AnyInteger) -> Result[u32]: ...
    @overload
    def __call__(self, value: Operand) -> Value: ...

class OfLaneNumbers(Protocol):
    """A function of the integers or floats of the lanes of a subgroup."""

    @overload
    def __call__(self, value: Integer[_W]) -> Result[_W]: ...
    @overload
    def __call__(self, value: Float[_W]) -> Result[_W]: ...
    @overload
    def __call__(self, value: AnyInteger) -> Result[u32]: ...
    @overload
    def __call__(self, value: AnyReal) -> Result[f32]: ...
    @overload
    def __call__(self, value: Operand) -> Value: ...

class OfLaneConditions(Protocol):
    """A question about the conditions of the lanes of a subgroup."""

    @overload
    def __call__(self, value: TypedValue[Any, Any] | AnyReal | AnyTruth) -> Result[bool_]: ...
    @overload
    def __call__(self, value: Operand) -> Value: ...

abs_: Final[OfNumber]
sqrt: Final[OfFloat]
floor: Final[OfFloat]
ceil: Final[OfFloat]
round_: Final[OfFloat]
round_even: Final[OfFloat]
trunc: Final[OfFloat]
sign: Final[OfFloat]
popcount: Final[OfInteger]
clz: Final[OfInteger]
ctz: Final[OfInteger]
reverse_bits: Final[OfInteger]
is_nan: Final[Classification]
is_inf: Final[Classification]
is_finite: Final[Classification]
sin: Final[OfF32]
cos: Final[OfF32]
tan: Final[OfF32]
asin: Final[OfF32]
acos: Final[OfF32]
atan: Final[OfF32]
sinh: Final[OfF32]
cosh: Final[OfF32]
tanh: Final[OfF32]
exp: Final[OfF32]
exp2: Final[OfF32]
log: Final[OfF32]
log2: Final[OfF32]
inverse_sqrt: Final[OfF32]
reciprocal: Final[OfF32]
abs_diff: Final[OfIntegers]
sat_add: Final[OfIntegers]
sat_sub: Final[OfIntegers]
sat_mul: Final[OfIntegers]
mulhi: Final[OfIntegers]
clmul: Final[OfIntegers]
min_: Final[OfNumbers]
max_: Final[OfNumbers]
rotl: Final[Rotation]
rotr: Final[Rotation]
subgroup_add: Final[OfLaneNumbers]
subgroup_min: Final[OfLaneNumbers]
subgroup_max: Final[OfLaneNumbers]
subgroup_and: Final[OfLaneIntegers]
subgroup_or: Final[OfLaneIntegers]
subgroup_xor: Final[OfLaneIntegers]
subgroup_any: Final[OfLaneConditions]
subgroup_all: Final[OfLaneConditions]
subgroup_inclusive_add: Final[OfLaneNumbers]
subgroup_inclusive_min: Final[OfLaneNumbers]
subgroup_inclusive_max: Final[OfLaneNumbers]
subgroup_inclusive_and: Final[OfLaneIntegers]
subgroup_inclusive_or: Final[OfLaneIntegers]
subgroup_inclusive_xor: Final[OfLaneIntegers]
subgroup_exclusive_add: Final[OfLaneNumbers]
subgroup_exclusive_min: Final[OfLaneNumbers]
subgroup_exclusive_max: Final[OfLaneNumbers]
subgroup_exclusive_and: Final[OfLaneIntegers]
subgroup_exclusive_or: Final[OfLaneIntegers]
subgroup_exclusive_xor: Final[OfLaneIntegers]

@overload
def select(condition_: Operand, on_true: TypedValue[_W, _N], on_false: _W | _N) -> Result[_W]: ...
@overload
def select(condition_: Operand, on_true: AnyInteger, on_false: Integer[_W]) -> Result[_W]: ...
@overload
def select(condition_: Operand, on_true: AnyReal, on_false: Float[_W]) -> Result[_W]: ...
@overload
def select(condition_: Operand, on_true: AnyTruth, on_false: AnyTruth | bool_) -> Result[bool_]: ...
@overload
def select(condition_: Operand, on_true: AnyInteger, on_false: AnyInteger) -> Result[u32]: ...
@overload
def select(condition_: Operand, on_true: AnyReal, on_false: AnyReal) -> Result[f32]: ...
@overload
def select(condition_: Operand, on_true: Operand, on_false: Operand) -> Value:
    """Returns ``on_true`` where the condition holds, else ``on_false``; both are evaluated."""

@overload
def fma(a: Float[_W], b: _W | AnyReal, c: _W | AnyReal) -> Result[_W]: ...
@overload
def fma(a: AnyReal, b: Float[_W], c: _W | AnyReal) -> Result[_W]: ...
@overload
def fma(a: AnyReal, b: AnyReal, c: Float[_W]) -> Result[_W]: ...
@overload
def fma(a: AnyReal, b: AnyReal, c: AnyReal) -> Result[f32]: ...
@overload
def fma(a: Operand, b: Operand, c: Operand) -> Value:
    """Returns ``a * b + c`` with one rounding; f32 or f64."""

@overload
def narrow(dtype: type[TypedValue[_W, _N]], x: _W | _N) -> Result[_W]: ...
@overload
def narrow(dtype: TypeLike, x: Operand) -> Value:
    """Returns the value that a load gives after ``x`` was stored to an element of the type ``dtype``."""

@overload
def pack(dtype: type[TypedValue[_W, _N]], x: _W | _N) -> Result[u32]: ...
@overload
def pack(dtype: TypeLike, x: Operand) -> Value:
    """Returns the bits that a store of ``x`` leaves in an element of the type ``dtype``, as a u32."""

@overload
def unpack(dtype: type[TypedValue[_W, _N]], word: u32 | AnyInteger) -> Result[_W]: ...
@overload
def unpack(dtype: TypeLike, word: Operand) -> Value:
    """Returns the load of an element of the type ``dtype`` that holds the low bits of a u32."""

@overload
def wrap_cast(dtype: type[Integer[_W]], x: Float[Any] | AnyReal) -> Result[_W]: ...
@overload
def wrap_cast(dtype: TypeLike, x: Operand) -> Value:
    """Converts f32 or f64 to u32, i32, u64 or i64: truncated toward zero, modulo 2^width."""

@overload
def subgroup_ballot(condition_: TypedValue[Any, Any] | AnyReal | AnyTruth) -> Result[u32]: ...
@overload
def subgroup_ballot(condition_: Operand) -> Value:
    """Returns a u32 whose bit k is the condition of lane k of the subgroup."""

@overload
def subgroup_shuffle(value: TypedValue[_W, _N], lane: u32 | AnyInteger) -> Result[_W]: ...
@overload
def subgroup_shuffle(value: AnyTruth, lane: u32 | AnyInteger) -> Result[bool_]: ...
@overload
def subgroup_shuffle(value: AnyInteger, lane: u32 | AnyInteger) -> Result[u32]: ...
@overload
def subgroup_shuffle(value: AnyReal, lane: u32 | AnyInteger) -> Result[f32]: ...
@overload
def subgroup_shuffle(value: Operand, lane: Operand) -> Value:
    """Returns ``value`` of lane ``lane`` (u32) of the subgroup; 0 where that lane does not exist."""

@overload
def subgroup_broadcast(value: TypedValue[_W, _N], lane: int) -> Result[_W]: ...
@overload
def subgroup_broadcast(value: AnyTruth, lane: int) -> Result[bool_]: ...
@overload
def subgroup_broadcast(value: AnyInteger, lane: int) -> Result[u32]: ...
@overload
def subgroup_broadcast(value: AnyReal, lane: int) -> Result[f32]: ...
@overload
def subgroup_broadcast(value: Operand, lane: int) -> Value:
    """Returns ``value`` of one lane, a number of 0 to 31, in all lanes of the subgroup."""
