"""Random valid programs with matching inputs, by seed.

The generator reaches every node kind, every operator at every type, every access and memory kind.  Programs are small:
the scalar oracle runs one in some tens of milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from vyre.domain.dispatch import DispatchConfig
from vyre.domain.frozen import frozen
from vyre.domain.ir.expr import SpecConst, Var
from vyre.domain.ir.program import Dim3, Program
from vyre.domain.ir.stmt import IndirectDispatch, Let, Stmt
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics.witnesses import buffer_bytes
from vyre.domain.specialization import SpecMap, SpecValue, spec_constants
from vyre.testing.random_programs.choices import Choices, SeededChoices, literal
from vyre.testing.random_programs.expressions import ExpressionWriter, Flow, Local
from vyre.testing.random_programs.memory import Level, Memory, Order, global_lane, lay_out, local_lane
from vyre.testing.random_programs.statements import StatementWriter

_SHAPES: Final[tuple[Dim3, ...]] = (
    *((8, 1, 1), (4, 1, 1), (1, 1, 1), (7, 1, 1), (32, 1, 1), (33, 1, 1), (40, 1, 1), (64, 1, 1)),
    *((4, 2, 1), (3, 5, 1), (1, 8, 1), (32, 2, 1), (2, 2, 2), (4, 2, 3), (1, 1, 4), (5, 1, 7)),
)
_MAX_LANES: Final = 96
_SPEC_TYPES: Final = (ScalarType.U32, ScalarType.I32, ScalarType.F32, ScalarType.BOOL)


@frozen(repr=False)
class Case:
    """A program and one dispatch of it.  ``inputs`` maps names to bytes in the element's storage form."""

    program: Program
    inputs: Mapping[str, bytes]
    config: DispatchConfig
    order: Order

    def __repr__(self) -> str:
        inputs = {name: data.hex() for name, data in self.inputs.items()}
        return f"<{self.order}; {self.config}; {inputs}\n{self.program.to_text()}>"

    def arguments(self) -> dict[str, Any]:
        """Inputs as a host passes them: a NumPy scalar for a parameter, bytes for everything else."""
        import numpy as np

        arguments: dict[str, Any] = dict(self.inputs)
        for buffer in self.program.buffers:
            if buffer.is_push and isinstance(buffer.element, ScalarType):
                value = np.frombuffer(self.inputs[buffer.name], buffer.element.numpy_name)[0]
                arguments[buffer.name] = bool(value) if buffer.element is ScalarType.BOOL else value
        return arguments


def generate(
    seed: int,
    *,
    order: Order = Order.INDEPENDENT,
    work: int = 40_000,
    traps: bool = False,
    indirect: bool = False,
    lacking: frozenset[str] = frozenset(),
) -> Case:
    """The case of a seed.  ``work``: node evaluations over all lanes, about; ``indirect``: with a statement
    that asks for an indirect launch, which no engine runs; ``lacking``: what is hardly used (``Choices``)."""
    return Generator(SeededChoices(seed, lacking), order, work, traps, indirect).case()


class Generator:
    """Makes one case from a source of choices."""

    def __init__(self, choices: Choices, order: Order, work: int, traps: bool, indirect: bool) -> None:
        self.choices = choices
        self.order = order
        self.work = work
        self.traps: bool = traps and choices.chance(30)
        self.indirect: bool = indirect and choices.chance(10)
        self.segments = choices.weighted(((8, 1), (3, 2), (1, 3)))
        self.workgroup: tuple[int, int, int] = choices.pick(_SHAPES)
        self.inferred_limit: int | None = None
        self.one_dimensional: bool = True
        self.config: DispatchConfig = self._geometry()

    def _geometry(self) -> DispatchConfig:
        choices = self.choices
        x, y, z = self.workgroup
        size = x * y * z
        groups = choices.between(1, max(1, min(5, _MAX_LANES // size)))
        self.lanes: int = groups * size
        if y == z == 1:
            match choices.pick(("inferred", "grid", "extent")):
                case "inferred":
                    self.inferred_limit = self.lanes
                    return DispatchConfig()
                case "extent":
                    return DispatchConfig(extent=(max(1, self.lanes - choices.below(x)),))
                case _ if choices.chance(70):
                    return DispatchConfig(grid=(groups, 1, 1))
        self.one_dimensional = False
        grid = choices.pick(((groups, 1, 1), (1, groups, 1), (1, 1, groups), (2, groups // 2 or 1, 1)))
        self.lanes = grid[0] * grid[1] * grid[2] * size
        if choices.chance(50):
            extent = (grid[0] * x, max(1, grid[1] * y - choices.below(y)), grid[2] * z)
            return DispatchConfig(extent=extent)
        return DispatchConfig(grid=grid)

    def case(self) -> Case:
        choices = self.choices
        memory = lay_out(choices, self.workgroup, self.lanes, self.segments, self.inferred_limit)
        constants = tuple(
            SpecConst(f"c{k}", literal(choices, choices.pick(_SPEC_TYPES))) for k in range(choices.below(3))
        )
        writer = ExpressionWriter(
            choices,
            memory,
            self.order,
            {True: local_lane(self.workgroup), False: global_lane(self.workgroup, self.one_dimensional)},
            constants,
            lanes=self.lanes,
            budget=max(self.work // self.lanes, 30),
        )
        statements = StatementWriter(writer, self.traps, self.segments)
        prologue = self._prologue(writer, memory)
        body = statements.program_body(choices.between(1, 6))
        program = Program(
            tuple(slot.buffer for slot in memory.slots[:: choices.pick((1, -1))]),
            self.workgroup,
            (*prologue, *body, *self._indirect(memory)),
            name=choices.pick((None, "kernel", "a kernel")),
            non_composable=choices.chance(10),
        )
        return Case(program, self._inputs(memory), self._configured(memory, program), self.order)

    def _prologue(self, writer: ExpressionWriter, memory: Memory) -> list[Stmt]:
        """First uses of the buffers, and names for the lane ids of some programs."""
        memory.change_uses(self.choices, self.order, workgroup=False)
        memory.change_uses(self.choices, self.order, workgroup=True)
        named: list[Stmt] = []
        scope: list[Local] = []
        for workgroup, name in ((False, "lane"), (True, "local")):
            if self.choices.chance(50):
                named.append(Let(name, writer.lane_ids[workgroup]))
                scope.append(Local(name, ScalarType.U32, Level.LANE, mutable=False, stable=True))
                writer.lane_ids[workgroup] = Var(name)
        writer.flow = Flow(scopes=(scope,))
        return named

    def _indirect(self, memory: Memory) -> list[Stmt]:
        if not self.indirect:
            return []
        slots = [slot for slot in memory.slots if slot.element is ScalarType.U32 and not slot.buffer.is_workgroup]
        return [IndirectDispatch(self.choices.pick(slots).name, 4 * self.choices.below(3))] if slots else []

    def _inputs(self, memory: Memory) -> dict[str, bytes]:
        inputs = {}
        for slot in memory.slots:
            if slot.buffer.takes_input:
                data = buffer_bytes(self.choices.below(1 << 16), slot.element, memory.counts[slot.name])
                inputs[slot.name] = (data[0] & 1).to_bytes(4, "little") if self._is_flag(slot.buffer) else data
        return inputs

    @staticmethod
    def _is_flag(buffer: Any) -> bool:
        return bool(buffer.is_push and buffer.element is ScalarType.BOOL)

    def _configured(self, memory: Memory, program: Program) -> DispatchConfig:
        constants = {
            name: SpecValue.scalar(default.dtype, literal(self.choices, default.dtype).value)
            for name, default in spec_constants(program).items()
            if self.choices.chance(50)
        }
        return replace(
            self.config,
            output_counts=memory.output_counts,
            step_budget=self.choices.between(0, 6) if not self.traps and self.choices.chance(12) else None,
            spec=SpecMap(constants) if constants else None,
        )
