"""The block of a ``p.grid_loop``, and the type in which a loop counts, decided by its bounds and its step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from vyre.domain.ir import arguments
from vyre.domain.ir.caller import caller_location, fail
from vyre.domain.ir.expr import Var
from vyre.domain.ir.handles import BufferHandle
from vyre.domain.ir.numpy_scalars import whole_number
from vyre.domain.ir.recorder import BlockContext, Recorder
from vyre.domain.ir.stmt import Body, GridLoop
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.value import NEVER_STALE, Operand, Origin, Value, typed, types_of
from vyre.domain.printable import shown

_U32: Final = ScalarType.U32


def grid_loop_block(
    recorder: Recorder, limit: Operand, flag: BufferHandle, name: str | None, writable: Sequence[Origin]
) -> BlockContext[Value]:
    """Returns the block of a grid loop.  ``writable`` are the buffers that rounds may change.

    Raises ``BuildError`` for a limit that is no u32, and a flag that is no u32 buffer which kernels can write.
    """
    hint = arguments.hint(name, "rounds")
    if not isinstance(flag, BufferHandle):
        fail(f"the flag of a grid loop is {shown(flag)}", "give a u32 buffer, as p.inout or p.output returned it.")
    recorder.check_readable(flag.origin, NEVER_STALE)
    buffer = flag._buffer
    if buffer.element is not _U32 or not (buffer.is_writable and buffer.is_bound):
        fail(
            f"the flag `{flag.name}` of a grid loop is no u32 buffer that the kernel writes",
            f'declare it with p.inout("{flag.name}", u32, 1), or p.output.',
        )
    most = recorder.consume(typed(limit, _U32, "the limit of a grid loop"))
    loc = caller_location()
    unique, origin = recorder.local(hint, mutable=False)
    origin.kind = "number of rounds"
    rounds = Value(Var(unique, loc=loc), _U32, {origin: NEVER_STALE})

    def enter() -> Value:
        recorder.mark_written(*writable)
        recorder.grid_loop = recorder.frames[-1]
        origin.pending = True
        return rounds

    def finish(body: Body) -> GridLoop:
        recorder.grid_loop = None
        origin.pending = False
        recorder.mark_written(*writable)
        return GridLoop(unique, most, flag.name, body, loc=loc)

    return BlockContext(recorder, "p.grid_loop", enter, finish, is_loop=True)


_ROLES: Final = ("the start of a loop", "the stop of a loop", "the step of a loop")


def loop_bounds(start: Operand, stop: Operand, step: Operand) -> tuple[Value, Value, Value]:
    """Returns start, stop and step as values of one integer type.

    It is the type of the values among them.  If all are numbers, it is i32 if one of them is negative, and u32 if not.
    """
    dtype: ScalarType | None = None
    negative: tuple[str, int] | None = None
    for bound, role in zip((start, stop, step), _ROLES, strict=True):
        if not isinstance(bound, Value):
            number = bound if type(bound) is int else whole_number(bound)
            if number is not None and number < 0:
                negative = negative or (role, number)
        elif not bound.dtype.is_integer:
            fail(
                f"{role} must be an integer, not {bound.dtype.text}{types_of(bound)}",
                "convert it with .cast(u32), or .cast(i32).",
            )
        elif dtype is None:
            dtype = bound.dtype
    if dtype is None:
        dtype = ScalarType.U32 if negative is None else ScalarType.I32
    elif negative is not None and not dtype.is_signed:
        role, number = negative
        fail(
            f"{role}, {shown(number)}, is negative, and the loop counts in {dtype.text}, the type of its other bounds",
            "count in a signed type: `with p.for_(n.cast(i32) - 1, -1, -1) as k:`.",
        )
    return typed(start, dtype, _ROLES[0]), typed(stop, dtype, _ROLES[1]), typed(step, dtype, _ROLES[2])
