"""What type checkers see of a call of a ``@vyre.function``: numbers of Python may stand for values of any type.

The parameters of ``def mix(h: u32, k: u32)`` take values of u32, and numbers, which become u32.  At run time this file
is never read.
"""

# mypy: disable-error-code="misc, overload-overlap"

from collections.abc import Callable
from typing import Generic, ParamSpec, Protocol, TypeVar, overload

from vyre.domain.ir.typed_values import AnyReal

_P = ParamSpec("_P")
_R = TypeVar("_R")
_R_co = TypeVar("_R_co", covariant=True)
_A = TypeVar("_A")
_B = TypeVar("_B")
_C = TypeVar("_C")
_D = TypeVar("_D")
_E = TypeVar("_E")
_F = TypeVar("_F")
_G = TypeVar("_G")
_H = TypeVar("_H")
_I = TypeVar("_I")
_J = TypeVar("_J")

class _Of1(Protocol[_A, _R_co]):
    @property
    def __wrapped__(self) -> Callable[[_A], _R_co]: ...

class _Of2(Protocol[_A, _B, _R_co]):
    @property
    def __wrapped__(self) -> Callable[[_A, _B], _R_co]: ...

class _Of3(Protocol[_A, _B, _C, _R_co]):
    @property
    def __wrapped__(self) -> Callable[[_A, _B, _C], _R_co]: ...

class _Of4(Protocol[_A, _B, _C, _D, _R_co]):
    @property
    def __wrapped__(self) -> Callable[[_A, _B, _C, _D], _R_co]: ...

class _Of5(Protocol[_A, _B, _C, _D, _E, _R_co]):
    @property
    def __wrapped__(self) -> Callable[[_A, _B, _C, _D, _E], _R_co]: ...

class _Of6(Protocol[_A, _B, _C, _D, _E, _F, _R_co]):
    @property
    def __wrapped__(self) -> Callable[[_A, _B, _C, _D, _E, _F], _R_co]: ...

class _Of7(Protocol[_A, _B, _C, _D, _E, _F, _G, _R_co]):
    @property
    def __wrapped__(self) -> Callable[[_A, _B, _C, _D, _E, _F, _G], _R_co]: ...

class _Of8(Protocol[_A, _B, _C, _D, _E, _F, _G, _H, _R_co]):
    @property
    def __wrapped__(self) -> Callable[[_A, _B, _C, _D, _E, _F, _G, _H], _R_co]: ...

class _Of9(Protocol[_A, _B, _C, _D, _E, _F, _G, _H, _I, _R_co]):
    @property
    def __wrapped__(self) -> Callable[[_A, _B, _C, _D, _E, _F, _G, _H, _I], _R_co]: ...

class _Of10(Protocol[_A, _B, _C, _D, _E, _F, _G, _H, _I, _J, _R_co]):
    @property
    def __wrapped__(self) -> Callable[[_A, _B, _C, _D, _E, _F, _G, _H, _I, _J], _R_co]: ...

class TypedCalls(Generic[_P, _R]):
    """A function that kernels call, with names of parameters, or by position with numbers among its arguments."""

    __wrapped__: Callable[_P, _R]
    @overload
    def __call__(self, *arguments: _P.args, **named: _P.kwargs) -> _R: ...
    @overload
    def __call__(self: _Of1[_A, _R], a: _A | AnyReal, /) -> _R: ...
    @overload
    def __call__(self: _Of2[_A, _B, _R], a: _A | AnyReal, b: _B | AnyReal, /) -> _R: ...
    @overload
    def __call__(self: _Of3[_A, _B, _C, _R], a: _A | AnyReal, b: _B | AnyReal, c: _C | AnyReal, /) -> _R: ...
    @overload
    def __call__(
        self: _Of4[_A, _B, _C, _D, _R], a: _A | AnyReal, b: _B | AnyReal, c: _C | AnyReal, d: _D | AnyReal, /
    ) -> _R: ...
    @overload
    def __call__(
        self: _Of5[_A, _B, _C, _D, _E, _R],
        a: _A | AnyReal,
        b: _B | AnyReal,
        c: _C | AnyReal,
        d: _D | AnyReal,
        e: _E | AnyReal,
        /,
    ) -> _R: ...
    @overload
    def __call__(
        self: _Of6[_A, _B, _C, _D, _E, _F, _R],
        a: _A | AnyReal,
        b: _B | AnyReal,
        c: _C | AnyReal,
        d: _D | AnyReal,
        e: _E | AnyReal,
        f: _F | AnyReal,
        /,
    ) -> _R: ...
    @overload
    def __call__(
        self: _Of7[_A, _B, _C, _D, _E, _F, _G, _R],
        a: _A | AnyReal,
        b: _B | AnyReal,
        c: _C | AnyReal,
        d: _D | AnyReal,
        e: _E | AnyReal,
        f: _F | AnyReal,
        g: _G | AnyReal,
        /,
    ) -> _R: ...
    @overload
    def __call__(
        self: _Of8[_A, _B, _C, _D, _E, _F, _G, _H, _R],
        a: _A | AnyReal,
        b: _B | AnyReal,
        c: _C | AnyReal,
        d: _D | AnyReal,
        e: _E | AnyReal,
        f: _F | AnyReal,
        g: _G | AnyReal,
        h: _H | AnyReal,
        /,
    ) -> _R: ...
    @overload
    def __call__(
        self: _Of9[_A, _B, _C, _D, _E, _F, _G, _H, _I, _R],
        a: _A | AnyReal,
        b: _B | AnyReal,
        c: _C | AnyReal,
        d: _D | AnyReal,
        e: _E | AnyReal,
        f: _F | AnyReal,
        g: _G | AnyReal,
        h: _H | AnyReal,
        i: _I | AnyReal,
        /,
    ) -> _R: ...
    @overload
    def __call__(
        self: _Of10[_A, _B, _C, _D, _E, _F, _G, _H, _I, _J, _R],
        a: _A | AnyReal,
        b: _B | AnyReal,
        c: _C | AnyReal,
        d: _D | AnyReal,
        e: _E | AnyReal,
        f: _F | AnyReal,
        g: _G | AnyReal,
        h: _H | AnyReal,
        i: _I | AnyReal,
        j: _J | AnyReal,
        /,
    ) -> _R: ...
