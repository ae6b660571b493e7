"""The input and the result of joining: launches as values, and the program that replaces them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import field

from vyre.domain.frozen import frozen
from vyre.domain.identity_enum import IdentityEnum
from vyre.domain.ir.expr import Literal
from vyre.domain.ir.program import Program
from vyre.domain.names import Dim3


class StageBarrier(IdentityEnum):
    """The lanes that wait for each other between two stages: none, those of a workgroup, or those of the grid."""

    NONE = 0
    WORKGROUP = 1
    GRID = 2


@frozen
class StageCall:
    """One launch on resident memory.

    ``grid`` counts workgroups and ``workgroup`` lanes, along x, y and z.  The next fields have one entry per bound
    buffer, in binding order: ``counts`` are the elements that the launch sees (1 for a parameter), ``buffers`` the
    identities of the memory (different identities share no byte; those of parameters do not matter), and ``nbytes``,
    which may be left out, the bytes of the memory, which may be longer than the launch needs.  ``values`` are the
    scalar parameters of which the value is known, by name, and ``spec`` the specialization constants that differ from
    their defaults.
    """

    program: Program
    grid: Dim3
    workgroup: Dim3
    counts: tuple[int, ...]
    buffers: tuple[Hashable, ...]
    values: Mapping[str, Literal] = field(default_factory=dict)
    spec: Mapping[str, Literal] = field(default_factory=dict)
    nbytes: tuple[int, ...] = ()


@frozen
class JoinedStages:
    """A valid program that leaves the bytes of the stages run one after the other.

    That holds for the counts and known values of the stages that were joined; stages with other counts are joined
    again, which mostly gives the same program.

    ``grid``: the workgroups to launch, of ``program.workgroup_size`` lanes.
    ``arguments``: for each binding of the program the stage, and the position among its bindings, whose memory or
    value it takes.
    ``unallocated``: the identities of temporaries that need no memory.
    ``barriers``: what stands between each stage and the next.
    """

    program: Program
    grid: Dim3
    arguments: tuple[tuple[int, int], ...]
    unallocated: frozenset[Hashable]
    barriers: tuple[StageBarrier, ...]


@frozen
class CannotJoin:
    """The stages before number ``stage`` may be joined, and this one cannot be joined to them, for ``reason``."""

    reason: str
    stage: int


class Refused(Exception):
    """Raised inside the package: a ``CannotJoin`` on its way."""

    def __init__(self, reason: str, stage: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.stage = stage
