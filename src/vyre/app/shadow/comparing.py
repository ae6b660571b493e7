"""The first difference between the outputs of two runs of one dispatch."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vyre.app.shadow.report import Evidence
from vyre.app.shadow.state import Difference
from vyre.domain.binding import plan_bindings
from vyre.domain.byte_differences import first_difference

if TYPE_CHECKING:
    from vyre.domain.dispatch import DispatchConfig
    from vyre.domain.ir.program import Program
    from vyre.policies.journal import Decision
    from vyre.ports.backend import Backend


class Outcome(NamedTuple):
    """A dispatch, with the bytes of its inputs and of its outputs, both in binding order."""

    program: Program
    config: DispatchConfig
    inputs: tuple[bytes, ...]
    got: tuple[bytes, ...]


def compare(
    outcome: Outcome,
    right: Outcome,
    written: Program,
    usual: Backend,
    checker: Backend,
    decisions: tuple[Decision, ...],
) -> Evidence:
    """Returns the evidence that the outputs of a dispatch differ from the ``right`` ones, those of ``written``."""
    program = outcome.program
    buffers = program.abi_buffers
    returned = [buffer.name for buffer in buffers if buffer.is_returned]
    got = dict(zip(returned, outcome.got, strict=True))
    expected = dict(zip(returned, right.got, strict=True))
    name = next(name for name in returned if got[name] != expected[name])
    return Evidence(
        written,
        program,
        outcome.config,
        dict(zip((buffer.name for buffer in buffers if buffer.takes_input), outcome.inputs, strict=True)),
        expected,
        got,
        identity(usual),
        identity(checker),
        difference_in(program, name, expected[name], got[name]),
        decisions,
    )


def difference_in(program: Program, name: str, expected: bytes, got: bytes, *, whole: bool = False) -> Difference:
    """Returns the first difference in the ``whole`` buffer of this name, or in what is returned of it."""
    slot, binding = next(
        (slot, each) for slot, each in enumerate(plan_bindings(program).bindings) if each.buffer.name == name
    )
    byte = first_difference(expected, got)
    size = binding.element_size
    at = slice(byte // size * size, (byte // size + 1) * size)
    if not whole:
        byte += (binding.buffer.output_range or (0, 0))[0]
    return Difference(
        program.name or "unnamed", slot, name, byte // size, byte, expected[at][::-1].hex(), got[at][::-1].hex()
    )


def identity(backend: Backend) -> dict[str, str]:
    """Returns what identifies a backend and its device."""
    return {
        "id": str(backend.id),
        "version": backend.version,
        "toolchain": backend.toolchain() or backend.version,
    }
