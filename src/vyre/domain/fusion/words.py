"""Stages in the words of one program: its buffers and parameters, and how each stage sees them."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import replace
from typing import Final

from vyre.domain.analysis.lane_facts import lane_facts
from vyre.domain.fusion.memory import Joined, JoinedMemory, counted_alike
from vyre.domain.fusion.rewriting import SUPPORTED, View
from vyre.domain.fusion.stages import Refused, StageCall
from vyre.domain.ir.buffers import Buffer
from vyre.domain.ir.expr import BufferLength, Expr, Literal
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import Body, Return, walk_statements
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.unique_names import UniqueNames
from vyre.domain.names import Dim3
from vyre.domain.source_location import joined_places
from vyre.domain.validation.declarations import MAX_PUSH_BYTES
from vyre.domain.validation.validator import check_rules


class StageWords:
    """The words of the program that replaces stages.

    ``names`` gives each name once, ``memory`` holds the bound buffers, ``values`` the parameters that become constants,
    because all together are too large, by the identity of their buffer, and ``unbound`` the memory that stages declare
    themselves, once ``views`` was asked for them.  Raises ``Refused``.
    """

    def __init__(self, stages: Sequence[StageCall], temporary: Collection[Hashable] = ()) -> None:
        self._stages = stages
        self.names: Final[UniqueNames] = UniqueNames()
        self.memory: Final[JoinedMemory] = JoinedMemory(stages, self.names)
        self.values: Final[dict[int, Literal]] = self._fixed_parameters()
        self.unbound: list[Buffer] = []
        self._alike = counted_alike(self.memory, temporary)

    def _fixed_parameters(self) -> dict[int, Literal]:
        parameters = [joined for joined in self.memory.all if joined.is_parameter]
        total = sum(joined.element.size for joined in parameters)
        fixed: dict[int, Literal] = {}
        for joined in parameters:
            if total <= MAX_PUSH_BYTES:
                break
            use = joined.first
            value = self._stages[use.stage].values.get(use.buffer.name)
            if value is not None:
                fixed[id(joined)] = value
                total -= joined.element.size
        if total > MAX_PUSH_BYTES:
            last = max(use.stage for joined in parameters for use in joined.uses)
            raise Refused(f"the parameters take {total} bytes together; the limit is {MAX_PUSH_BYTES}", last)
        return fixed

    def views(self, stage: int) -> dict[str, View]:
        """Returns how a stage sees each of its buffers, by name; call it once for each stage."""
        views: dict[str, View] = {}
        program = self._stages[stage].program
        for position, buffer in enumerate(program.abi_buffers):
            joined = self.memory.of[stage, position]
            use = next(use for use in joined.uses if (use.stage, use.position) == (stage, position))
            assert isinstance(buffer.element, ScalarType)
            if buffer.is_push:
                length: Expr = Literal(ScalarType.U32, 1)
                own = None
            else:
                alike = self._alike.get(use.count)
                length = Literal(ScalarType.U32, use.count) if alike is None else BufferLength(alike.name)
                own = use.count if use.count < joined.length else None
            value = self.values.get(id(joined))
            views[buffer.name] = View(joined.name, buffer.element, joined.element, length, own, value)
        for buffer in program.buffers:
            if not buffer.is_bound:
                renamed = replace(buffer, name=self.names.unique(buffer.name))
                self.unbound.append(renamed)
                assert isinstance(buffer.element, ScalarType)
                views[buffer.name] = View(renamed.name, buffer.element, buffer.element, BufferLength(renamed.name))
        return views

    def program(self, body: Body, memory: Sequence[Joined], workgroup: Dim3) -> Program:
        """Returns a program with this body, whose bound buffers are ``memory``."""
        bound = tuple(joined.declaration(binding) for binding, joined in enumerate(memory))
        name = "+".join(dict.fromkeys(call.program.name or "unnamed" for call in self._stages))
        place = joined_places(*[call.program.loc for call in self._stages])
        return Program((*bound, *self.unbound), workgroup, body, name=name, loc=place)


def check_stage(number: int, call: StageCall) -> None:
    """Raises ``Refused`` for a program that is never joined, and ``InvalidProgram`` for one that is not valid."""
    program = call.program
    check_rules(program).raise_if_invalid()
    facts = lane_facts(program)
    reason = None
    if facts.traps:
        reason = "it may trap"
    elif facts.order_sensitive:
        reason = "its result depends on the order of atomics"
    elif facts.indirect:
        reason = "it asks for a grid at run time"
    elif program.non_composable:
        reason = "it is marked as not composable"
    else:
        other = next(
            (s for s in walk_statements(program.body) if type(s) not in SUPPORTED and not isinstance(s, Return)), None
        )
        if other is not None:
            reason = f"it has a statement of the kind {type(other).__name__}"
    if reason is not None:
        raise Refused(reason, number)
