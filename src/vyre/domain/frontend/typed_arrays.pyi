"""What type checkers see of ``In``, ``InOut`` and ``Out``: arrays with one, two or three axes.

At run time ``In[f32]`` is an ``ArrayType`` (``vyre.domain.frontend.annotations``), and this file is never read.  Type
checkers refuse bare numbers and texts in a type, so that they want ``In[f32, Literal[2]]`` for ``In[f32, 2]``,
``Out[f32, Literal["len(x)"]]`` for ``Out[f32, "len(x)"]`` and ``Annotated[Out[f32], 256]`` for ``Out[f32, 256]``; both
mean the same at run time.
"""

# mypy: disable-error-code="override, misc, overload-overlap"

from typing import Any, ClassVar, Generic, Literal, TypeAlias, overload

import numpy as np
from typing_extensions import TypeVar

from vyre.domain.ir.operators import Ordering
from vyre.domain.ir.typed_values import AnyInteger, AnyReal, Float, Result, TypedValue, i32, u32, u64
from vyre.domain.ir.value import Value

_T_co = TypeVar("_T_co", covariant=True)
_A_co = TypeVar("_A_co", default=Literal[1], covariant=True)
_S_co = TypeVar("_S_co", default=None, covariant=True)
_W = TypeVar("_W", bound=Value)
_N = TypeVar("_N")
_C = TypeVar("_C", u32, i32, u64)
Index: TypeAlias = int | tuple[int, int] | tuple[int, int, int]

class In(Generic[_T_co, _A_co]):
    """An array that a kernel reads."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> type[_T_co]: ...
    def __len__(self) -> int: ...
    __iter__: ClassVar[None]
    __contains__: ClassVar[None]
    @overload
    def __getitem__(self: In[TypedValue[_W, _N], Literal[1] | str], index: int, /) -> Result[_W]: ...
    @overload
    def __getitem__(self: In[TypedValue[_W, _N], Literal[2] | str], index: tuple[int, int], /) -> Result[_W]: ...
    @overload
    def __getitem__(self: In[TypedValue[_W, _N], Literal[3] | str], index: tuple[int, int, int], /) -> Result[_W]: ...
    @overload
    def __getitem__(self: In[Any, Literal[1] | str], index: int, /) -> Result[_T_co]: ...
    @overload
    def __getitem__(self: In[Any, Literal[2] | str], index: tuple[int, int], /) -> Result[_T_co]: ...
    @overload
    def __getitem__(self: In[Any, Literal[3] | str], index: tuple[int, int, int], /) -> Result[_T_co]: ...

class InOut(In[_T_co, _A_co]):
    """An array that a kernel reads and writes."""

    @overload
    def __setitem__(self: In[TypedValue[_W, _N], Literal[1] | str], index: int, value: _W | _N, /) -> None: ...
    @overload
    def __setitem__(
        self: In[TypedValue[_W, _N], Literal[2] | str], index: tuple[int, int], value: _W | _N, /
    ) -> None: ...
    @overload
    def __setitem__(
        self: In[TypedValue[_W, _N], Literal[3] | str], index: tuple[int, int, int], value: _W | _N, /
    ) -> None: ...
    @overload
    def __setitem__(
        self: In[Float[Any] | np.floating[Any], Literal[1] | str], index: int, value: _T_co | AnyReal, /
    ) -> None: ...
    @overload
    def __setitem__(
        self: In[Float[Any] | np.floating[Any], Literal[2] | str], index: tuple[int, int], value: _T_co | AnyReal, /
    ) -> None: ...
    @overload
    def __setitem__(
        self: In[Float[Any] | np.floating[Any], Literal[3] | str],
        index: tuple[int, int, int],
        value: _T_co | AnyReal,
        /,
    ) -> None: ...
    @overload
    def __setitem__(self: In[Any, Literal[1] | str], index: int, value: _T_co | AnyInteger, /) -> None: ...
    @overload
    def __setitem__(self: In[Any, Literal[2] | str], index: tuple[int, int], value: _T_co | AnyInteger, /) -> None: ...
    @overload
    def __setitem__(
        self: In[Any, Literal[3] | str], index: tuple[int, int, int], value: _T_co | AnyInteger, /
    ) -> None: ...
    def atomic_add(self: In[_C, Any], index: Index, value: _C | AnyInteger, *, ordering: Ordering = ...) -> Result[_C]:
        """Adds to an element, wrapping; returns the old value."""
    def atomic_or(self: In[_C, Any], index: Index, value: _C | AnyInteger, *, ordering: Ordering = ...) -> Result[_C]:
        """Combines an element with ``value`` by bitwise or; returns the old value."""
    def atomic_and(self: In[_C, Any], index: Index, value: _C | AnyInteger, *, ordering: Ordering = ...) -> Result[_C]:
        """Combines an element with ``value`` by bitwise and; returns the old value."""
    def atomic_xor(self: In[_C, Any], index: Index, value: _C | AnyInteger, *, ordering: Ordering = ...) -> Result[_C]:
        """Combines an element with ``value`` by bitwise exclusive or; returns the old value."""
    def atomic_min(self: In[_C, Any], index: Index, value: _C | AnyInteger, *, ordering: Ordering = ...) -> Result[_C]:
        """Stores the smaller of element and ``value``; returns the old value."""
    def atomic_max(self: In[_C, Any], index: Index, value: _C | AnyInteger, *, ordering: Ordering = ...) -> Result[_C]:
        """Stores the larger of element and ``value``; returns the old value."""
    def atomic_exchange(
        self: In[_C, Any], index: Index, value: _C | AnyInteger, *, ordering: Ordering = ...
    ) -> Result[_C]:
        """Stores ``value``; returns the old value."""
    def atomic_fetch_nand(
        self: In[_C, Any], index: Index, value: _C | AnyInteger, *, ordering: Ordering = ...
    ) -> Result[_C]:
        """Stores ``~(old & value)``; returns the old value."""
    def atomic_compare_exchange(
        self: In[_C, Any], index: Index, expected: _C | AnyInteger, value: _C | AnyInteger, *, ordering: Ordering = ...
    ) -> Result[_C]:
        """Stores ``value`` if the element equals ``expected``; returns the old value."""

class Out(InOut[_T_co, _A_co], Generic[_T_co, _A_co, _S_co]):
    """An array that a kernel writes; it starts as zeros.

    ``_S_co``: the size of an output that the caller does not pass, ``Out[f32, Literal[2], Literal["len(x), 4"]]``.
    """
