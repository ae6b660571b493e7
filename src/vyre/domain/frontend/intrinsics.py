"""The functions that exist in kernels only: ids, memory, barriers, and what is known while a kernel is being built.

Python never calls them for a kernel, which is made of its source; called anywhere else they raise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar, overload

from vyre.domain.errors import UnsupportedUse
from vyre.domain.ir.caller import outside

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from vyre.domain.frontend.annotations import InOut
    from vyre.domain.ir.definitions import Definition
    from vyre.domain.ir.numpy_scalars import Size
    from vyre.domain.ir.typed_values import Result
    from vyre.domain.ir.types import u32

T = TypeVar("T")


def global_id(axis: int = 0) -> Result[u32]:
    """Returns the position of the lane in the whole grid along an axis (0 x, 1 y, 2 z), a u32."""
    _outside("global_id")


def local_id(axis: int = 0) -> Result[u32]:
    """Returns the position of the lane in its workgroup along an axis, a u32."""
    _outside("local_id")


def group_id(axis: int = 0) -> Result[u32]:
    """Returns the position of the workgroup in the grid along an axis, a u32."""
    _outside("group_id")


def num_groups(axis: int = 0) -> Result[u32]:
    """Returns the number of workgroups in the grid along an axis, a u32."""
    _outside("num_groups")


def subgroup_lane() -> Result[u32]:
    """Returns the position of the lane in its subgroup, 0..31, a u32."""
    _outside("subgroup_lane")


def subgroup_size() -> Result[u32]:
    """Returns the number of lanes of a full subgroup, 32, a u32."""
    _outside("subgroup_size")


def barrier() -> None:
    """Makes all lanes of the workgroup wait for each other; their earlier writes become visible to each other."""
    _outside("barrier")


def grid_sync() -> None:
    """Makes all lanes of the grid wait for each other; allowed outside branches and loops only."""
    _outside("grid_sync")


def grid_loop(limit: int, flag: InOut[u32]) -> AbstractContextManager[Result[u32]]:
    """Repeats the body of ``with vyre.grid_loop(limit, changed) as rounds:`` on the whole grid until nothing changes.

    A lane that changes something stores to ``changed[0]``, which is 0 when a round starts; the loop ends after a round
    that left it 0, or after ``limit`` rounds (u32, the same in the whole grid; 0 leaves the flag alone).  The body only
    stores to the flag.  All lanes of the grid wait for each other before the first round and after each one.
    ``rounds`` can be used behind the loop: the number of rounds run, a u32.  Allowed outside branches and loops only.
    """
    _outside("grid_loop")


def trap(address: int, tag: str) -> None:
    """Ends the lane and fails the dispatch with ``TrapError(tag, address)``; ``address`` is u32."""
    _outside("trap")


@overload
def workgroup_array(dtype: type[T], shape: Size | tuple[Size]) -> InOut[T]: ...
@overload
def workgroup_array(dtype: type[T], shape: tuple[Size, Size]) -> InOut[T, Literal[2]]: ...
@overload
def workgroup_array(dtype: type[T], shape: tuple[Size, Size, Size]) -> InOut[T, Literal[3]]: ...
def workgroup_array(dtype: type[T], shape: Size | tuple[Size, ...]) -> InOut[T, Any]:
    """Declares memory that the lanes of a workgroup share, zeroed at the start of each workgroup.

    ``shape``: the number of elements, or up to three sizes, all known while the kernel is being built.
    """
    _outside("workgroup_array")


@overload
def private_array(dtype: type[T], shape: Size | tuple[Size]) -> InOut[T]: ...
@overload
def private_array(dtype: type[T], shape: tuple[Size, Size]) -> InOut[T, Literal[2]]: ...
@overload
def private_array(dtype: type[T], shape: tuple[Size, Size, Size]) -> InOut[T, Literal[3]]: ...
def private_array(dtype: type[T], shape: Size | tuple[Size, ...]) -> InOut[T, Any]:
    """Declares memory that every lane has for itself, zeroed at the start of the lane: at most 64 KiB in all.

    ``shape`` as for ``workgroup_array``.
    """
    _outside("private_array")


def spec(name: str, default: T) -> T:
    """Returns a constant that a dispatch may set by ``spec={name: value}``: u32, i32, f32 or bool, as the default."""
    _outside("spec")


def call(operation: str | Definition, *args: Any) -> Any:
    """Returns the result of an operation for these arguments, which have the types of its parameters.

    ``operation``: a definition, or the id of a registered operation such as ``"acme.gelu"``.
    """
    _outside("call")


def static(value: T) -> T:
    """Returns ``value``, which must be known while the kernel is being built.

    ``for k in vyre.static(range(4)):`` repeats the body four times in the program, with k as a number.
    """
    return value


def _outside(name: str) -> NoReturn:
    raise UnsupportedUse(
        f"{name}() is called outside a kernel",
        fix=f"call it in a function with @vyre.kernel or @vyre.function; a ProgramBuilder has its own, p.{name}(...).",
        loc=outside(),
    )
