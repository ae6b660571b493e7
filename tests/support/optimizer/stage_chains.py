"""Random chains of launches on shared memory, and their runs one by one and joined."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from vyre.app.fusing import FusedGroup
from vyre.app.sequences.steps import Step
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.fusion.stages import JoinedStages, StageCall
from vyre.domain.ir.buffers import Buffer
from vyre.domain.ir.builder import ProgramBuilder
from vyre.domain.ir.expr import Literal
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import ScalarType
from vyre.domain.names import Dim3

_S: Final = ScalarType
WORDS: Final = (_S.U32, _S.I32, _S.F32)
NARROW: Final = (_S.U8, _S.I8, _S.U16, _S.I16, _S.F16, _S.BF16)
_BY_SIZE: Final = {1: (_S.U8, _S.I8), 2: (_S.U16, _S.I16, _S.F16, _S.BF16), 4: WORDS}


@dataclass(frozen=True)
class Array:
    """Memory of ``nbytes`` bytes; its first elements have ``size`` bytes."""

    name: str
    size: int
    nbytes: int


@dataclass(frozen=True)
class Chain:
    """Launches on arrays; ``temporary`` names those that nobody reads afterwards."""

    arrays: tuple[Array, ...]
    stages: tuple[StageCall, ...]
    temporary: frozenset[str]

    def shortened(self, count: int) -> Chain:
        """The first ``count`` stages."""
        stages = self.stages[:count]
        return Chain(self.arrays, stages, unread(stages, self.temporary))


def call(
    program: Program,
    memory: Sequence[Array | Literal],
    *,
    grid: int | Dim3,
    counts: Sequence[int] | None = None,
    spec: dict[str, Literal] | None = None,
) -> StageCall:
    """The launch of a program on arrays and on values of its parameters, in binding order."""
    found: list[int] = []
    values: dict[str, Literal] = {}
    for buffer, held in zip(program.abi_buffers, memory, strict=True):
        if isinstance(held, Literal):
            values[buffer.name] = held
            found.append(1)
        else:
            assert isinstance(buffer.element, ScalarType)
            found.append(buffer.count or held.nbytes // buffer.element.size)
    return StageCall(
        program,
        (grid, 1, 1) if isinstance(grid, int) else grid,
        program.workgroup_size,
        tuple(counts or found),
        tuple(held.name if isinstance(held, Array) else None for held in memory),
        values,
        spec or {},
        tuple(held.nbytes if isinstance(held, Array) else 4 for held in memory),
    )


def unread(stages: Sequence[StageCall], wanted: Collection[str]) -> frozenset[str]:
    """Those of the wanted arrays that a launch zeroes before it is read, so that old content does not matter."""
    found = set()
    for name in wanted:
        first = next((stage for stage in stages if name in stage.buffers), None)
        if first is not None and first.program.abi_buffers[first.buffers.index(name)].is_output:
            found.add(name)
    return frozenset(found)


# ---- runs
def content(chain: Chain, seed: int) -> dict[str, np.ndarray[Any, Any]]:
    """The first content of the arrays: bytes that are seldom NaN in any type."""
    rng = np.random.default_rng(seed)
    return {array.name: rng.integers(0, 120, array.nbytes, dtype=np.uint8) for array in chain.arrays}


def run(
    session: Any,
    chain: Chain,
    joined: JoinedStages | None,
    seed: int,
    programs: Callable[[Program], Program] = lambda p: p,
) -> dict[str, bytes]:
    """The bytes of the arrays after the launches, one by one or joined; those of temporaries are left out."""
    start = content(chain, seed)
    missing = joined.unallocated if joined else frozenset()
    arrays = {name: session.resident(data) for name, data in start.items() if name not in missing}
    try:
        steps = [_step(chain, stage, arrays) for stage in chain.stages] if joined is None else []
        if joined is not None:
            steps = [joined_step(chain, joined, arrays)]
        session.sequence(steps)()
        return {name: array.download().tobytes() for name, array in arrays.items() if name not in chain.temporary}
    finally:
        for array in arrays.values():
            array.close()


def run_groups(session: Any, chain: Chain, groups: Sequence[FusedGroup], seed: int) -> dict[str, bytes]:
    """The bytes of the arrays after groups of launches."""
    start = content(chain, seed)
    missing = {name for group in groups if group.joined for name in group.joined.unallocated}
    arrays = {name: session.resident(data) for name, data in start.items() if name not in missing}
    try:
        steps = []
        for group in groups:
            part = replace(chain, stages=chain.stages[group.stages.start : group.stages.stop])
            if group.joined is None:
                steps += [_step(part, stage, arrays) for stage in part.stages]
            else:
                steps.append(joined_step(part, group.joined, arrays))
        session.sequence(steps)()
        return {name: array.download().tobytes() for name, array in arrays.items() if name not in chain.temporary}
    finally:
        for array in arrays.values():
            array.close()


def _step(chain: Chain, stage: StageCall, arrays: dict[str, Any]) -> Step:
    inputs = {
        buffer.name: _argument(stage, position, buffer, arrays)
        for position, buffer in enumerate(stage.program.abi_buffers)
    }
    spec = {name: value.value for name, value in stage.spec.items()}
    return Step(stage.program, inputs, DispatchConfig(grid=stage.grid), spec=spec or None)


def joined_step(chain: Chain, joined: JoinedStages, arrays: dict[str, Any]) -> Step:
    """The joined program as one step."""
    inputs = {}
    for buffer, (stage, position) in zip(joined.program.abi_buffers, joined.arguments, strict=True):
        source = chain.stages[stage]
        inputs[buffer.name] = _argument(source, position, source.program.abi_buffers[position], arrays)
    return Step(joined.program, inputs, DispatchConfig(grid=joined.grid))


def _argument(stage: StageCall, position: int, buffer: Buffer, arrays: dict[str, Any]) -> Any:
    if buffer.is_push:
        return stage.values[buffer.name].value
    return arrays[str(stage.buffers[position])]


# ---- random chains
class Chains:
    """Random chains; ``share`` arrays, of ``lengths`` elements, are used by the stages in turn."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._last: Array | None = None

    def chain(self, stages: int | None = None) -> Chain:
        rng = self.random
        size = rng.choice((4, 4, 4, 2, 1))
        base = rng.choice((7, 64, 100, 256, 300))
        lengths = [base, base, base, rng.choice((base, base, max(1, base - 5), base + 9, 2 * base))]
        arrays = tuple(
            Array(f"a{number}", size, length * size)
            for number, length in enumerate(lengths + [base] * rng.randint(0, 2))
        )
        workgroup = rng.choice((8, 32, 64))
        made = []
        for _ in range(stages or rng.randint(2, 6)):
            shape = workgroup if rng.random() < 0.85 else rng.choice((8, 16, 32))
            made.append(self._stage(arrays, shape))
        temporary = {array.name for array in arrays if rng.random() < 0.7}
        return Chain(arrays, tuple(made), unread(made, temporary))

    def _stage(self, arrays: Sequence[Array], workgroup: int) -> StageCall:
        rng = self.random
        kinds = [self._map] * 8 + [
            self._shifted,
            self._reversed,
            self._block_sum,
            self._partial,
            self._strided,
            self._histogram,
            self._looped,
            self._switched,
            self._private,
            self._between,
            self._ballot,
            self._special,
            self._wide_index,
            self._rows,
            self._rows,
        ]
        return rng.choice(kinds)(arrays, workgroup)

    def _element(self, array: Array) -> ScalarType:
        return self.random.choice(_BY_SIZE[array.size])

    def _grid(self, lanes: int, workgroup: int) -> int:
        exact = -(-lanes // workgroup)
        return self.random.choice((exact, exact, exact, exact, exact + 1, max(1, exact - 1)))

    def _value(self, p: ProgramBuilder, loaded: Any, element: ScalarType) -> Any:
        """An operation on a value, of the same type."""
        kind = self.random.randrange(4)
        wide = element.widened
        if kind == 0:
            return loaded + self._number(wide, 3)
        if kind == 1:
            return loaded * self._number(wide, 3)
        if kind == 2:
            return self._select(p, loaded, wide)
        return loaded * self._number(wide, 5) - self._number(wide, 1)

    def _select(self, p: ProgramBuilder, loaded: Any, wide: ScalarType) -> Any:
        import vyre

        return vyre.select(loaded > self._number(wide, 50), loaded, loaded + self._number(wide, 7))

    @staticmethod
    def _number(wide: ScalarType, value: int) -> Any:
        return float(value) if wide.is_float else value

    @staticmethod
    def _cast(value: Any, wide: ScalarType) -> Any:
        return value.cast(wide)

    def _two(self, arrays: Sequence[Array]) -> tuple[Array, Array]:
        """A source, often what the stage before wrote, and a target."""
        source, target = self.random.sample(list(arrays), 2)
        if self._last is not None and self._last in arrays and self.random.random() < 0.6:
            source = self._last
            target = self.random.choice([array for array in arrays if array is not source])
        self._last = target
        return source, target

    def _map(self, arrays: Sequence[Array], workgroup: int) -> StageCall:
        rng = self.random
        source, target = self._two(arrays)
        two = self.random.choice((source, rng.choice(arrays)))
        types = {name: self._element(array) for name, array in (("x", source), ("z", two), ("y", target))}
        memory: list[Array | Literal] = []
        with ProgramBuilder("map", workgroup=workgroup) as p:
            x = p.input("x", types["x"])
            memory.append(source)
            z = None
            if two is not target and two is not source:
                z = p.input("z", types["z"])
                memory.append(two)
            kind = rng.choice(("output", "inout", "inout"))
            y = p.output("y", types["y"]) if kind == "output" else p.inout("y", types["y"])
            memory.append(target)
            bound = rng.choice(("x", "y", "param", "none", "return"))
            n = None
            if bound == "param":
                n = p.param("n", _S.U32)
                memory.append(Literal.of(_S.U32, rng.choice((5, 100, 300))))
            i = p.let(p.global_id(), "i") if rng.random() < 0.7 else p.global_id()
            wide = types["y"].widened

            def body() -> None:
                value = self._value(p, x[i], types["x"])
                if z is not None:
                    value = self._cast(value, types["z"].widened) + z[i]
                value = self._cast(value, wide)
                if kind == "inout" and rng.random() < 0.4:
                    value = value + y[i]
                if rng.random() < 0.2:
                    with p.if_(i % 2 == 0):
                        y[i] = value
                else:
                    y[i] = value
                if rng.random() < 0.2:
                    y[i] = self._value(p, y[i], types["y"])

            if bound == "none":
                body()
            elif bound == "return":
                with p.if_(i >= x.length):
                    p.return_()
                body()
            else:
                with p.if_(i < (n if n is not None else x.length if bound == "x" else y.length)):
                    body()
        return call(p.build(), memory, grid=self._grid(target.nbytes // target.size, workgroup))

    def _shifted(self, arrays: Sequence[Array], workgroup: int) -> StageCall:
        source, target = self._two(arrays)
        element, made = self._element(source), self._element(target)
        with ProgramBuilder("shifted", workgroup=workgroup) as p:
            x, y = p.input("x", element), p.inout("y", made)
            i = p.let(p.global_id(), "i")
            with p.if_(i < y.length):
                y[i] = self._cast(x[i + 1] + x[i], made.widened)
        return call(p.build(), [source, target], grid=self._grid(target.nbytes // target.size, workgroup))

    def _reversed(self, arrays: Sequence[Array], workgroup: int) -> StageCall:
        source, target = self._two(arrays)
        element, made = self._element(source), self._element(target)
        with ProgramBuilder("reversed", workgroup=workgroup) as p:
            x, y = p.input("x", element), p.output("y", made)
            j = p.group_id() * workgroup + (workgroup - 1 - p.local_id())
            y[p.global_id()] = self._cast(x[j], made.widened)
        return call(p.build(), [source, target], grid=self._grid(target.nbytes // target.size, workgroup))

    def _block_sum(self, arrays: Sequence[Array], workgroup: int) -> StageCall:
        source, target = self._two(arrays)
        element, made = self._element(source), self._element(target)
        with ProgramBuilder("block_sum", workgroup=workgroup) as p:
            x, y = p.input("x", element), p.inout("y", made)
            shared = p.workgroup("shared", element, workgroup)
            i, lane = p.let(p.global_id(), "i"), p.let(p.local_id(), "lane")
            with p.if_(i < x.length):
                shared[lane] = x[i]
            p.barrier()
            y[i] = self._cast(shared[lane] + shared[(lane + 1) % workgroup], made.widened)
        return call(p.build(), [source, target], grid=self._grid(target.nbytes // target.size, workgroup))

    def _partial(self, arrays: Sequence[Array], workgroup: int) -> StageCall:
        source, target = self._two(arrays)
        element, made = self._element(source), self._element(target)
        with ProgramBuilder("partial", workgroup=workgroup) as p:
            x, y = p.input("x", element), p.inout("y", made)
            with p.if_(p.local_id() == 0):
                y[p.group_id()] = self._cast(x[p.global_id()] + x[p.global_id() + 1], made.widened)
        return call(p.build(), [source, target], grid=self._grid(source.nbytes // source.size, workgroup))

    def _strided(self, arrays: Sequence[Array], workgroup: int) -> StageCall:
        source, target = self._two(arrays)
        element, made = self._element(source), self._element(target)
        with ProgramBuilder("strided", workgroup=workgroup) as p:
            x, y = p.input("x", element), p.inout("y", made)
            i = p.let(p.global_id(), "i")
            y[i * 2] = self._cast(x[i], made.widened)
            y[i * 2 + 1] = self._cast(x[i * 2], made.widened)
        return call(p.build(), [source, target], grid=self._grid(target.nbytes // target.size // 2, workgroup))

    def _histogram(self, arrays: Sequence[Array], workgroup: int) -> StageCall:
        source, target = self._two(arrays)
        if source.size != 4:
            return self._map(arrays, workgroup)
        with ProgramBuilder("histogram", workgroup=workgroup) as p:
            x, y = p.input("x", _S.U32), p.inout("y", _S.U32)
            i = p.let(p.global_id(), "i")
            with p.if_(i < x.length):
                y.atomic_add(x[i] % y.length, 1)
        return call(p.build(), [source, target], grid=self._grid(source.nbytes // source.size, workgroup))

    def _looped(self, arrays: Sequence[Array], workgroup: int) -> StageCall:
        source, target = self._two(arrays)
        element, made = self._element(source), self._element(target)
        with ProgramBuilder("looped", workgroup=workgroup) as p:
            x, y = p.input("x", element), p.inout("y", made)
            stride = p.let(p.num_groups() * workgroup, "stride")
            with p.for_(p.global_id(), y.length, stride) as i:
                with p.if_(x[i] == self._number(element.widened, 60)):
                    p.return_()
                y[i] = self._cast(x[i], made.widened)
        return call(p.build(), [source, target], grid=self._grid(target.nbytes // target.size // 2, workgroup))

    def _switched(self, arrays: Sequence[Array], workgroup: int) -> StageCall:
        source, target = self._two(arrays)
        element, made = self._element(source), self._element(target)
        with ProgramBuilder("switched", workgroup=workgroup) as p:
            x, y = p.input("x", element), p.inout("y", made)
            i = p.let(p.global_id(), "i")
            with p.switch(i % 4) as arms:
                with arms.case(0):
                    p.return_()
                with arms.case(1, 2):
                    y[i] = self._cast(x[i], made.widened)
            with p.for_(0, 3) as k:
                with p.if_(k + i % 3 > 3), p.for_(0, 2), p.if_(y[i] == self._number(made.widened, 9)):
                    p.return_()
                y[i] = y[i] + self._number(made.widened, 1)
            y[i] = y[i] * self._number(made.widened, 2)
        return call(p.build(), [source, target], grid=self._grid(target.nbytes // target.size, workgroup))

    def _private(self, arrays: Sequence[Array], workgroup: int) -> StageCall:
        source, target = self._two(arrays)
        element, made = self._element(source), self._element(target)
        with ProgramBuilder("private", workgroup=workgroup) as p:
            x, y = p.input("x", element), p.output("y", made)
            held = p.array("held", element, 4)
            i = p.let(p.global_id(), "i")
            with p.for_(0, 3) as k:
                held[k] = x[i] + self._number(element.widened, 1)
            with p.if_(i < x.length):
                y[i] = self._cast(held[i % 4], made.widened)
        return call(p.build(), [source, target], grid=self._grid(target.nbytes // target.size, workgroup))

    def _between(self, arrays: Sequence[Array], workgroup: int) -> StageCall:
        """Declarations and memory between equal and opposite guards."""
        rng = self.random
        source, target = self._two(arrays)
        element, made = self._element(source), self._element(target)
        with ProgramBuilder("between", workgroup=workgroup) as p:
            x, y = p.input("x", element), p.inout("y", made)
            memory = p.array("memory", element, 2)
            i = p.let(p.global_id(), "i")
            held = p.var(p.let(x[i], "start"), "held")
            for _ in range(rng.randint(1, 3)):
                with p.if_(rng.choice((i < x.length, i >= x.length, x.length > i, i < 10))):
                    held.assign(held + x[i])
                    memory[rng.randint(0, 1)] = x[i]
                with p.else_():
                    if rng.random() < 0.5:
                        held.assign(held + self._number(element.widened, 3))
                    if rng.random() < 0.5:
                        y[i] = self._cast(x[i], made.widened)
                value = p.let(
                    rng.choice(
                        (
                            held + self._number(element.widened, 1),
                            memory[0],
                            memory[1] + x[i],
                            y[i].cast(element.widened),
                        )
                    )
                )
                with p.if_(rng.choice((i < x.length, i < 10))):
                    y[i] = self._cast(value, made.widened)
        return call(p.build(), [source, target], grid=self._grid(target.nbytes // target.size, workgroup))

    def _ballot(self, arrays: Sequence[Array], workgroup: int) -> StageCall:
        import vyre

        source, target = self._two(arrays)
        element, made = self._element(source), self._element(target)
        with ProgramBuilder("ballot", workgroup=workgroup) as p:
            x, y = p.input("x", element), p.inout("y", made)
            i = p.let(p.global_id(), "i")
            low = p.let(x[i] < self._number(element.widened, 50), "low")
            mask = p.let(vyre.subgroup_ballot(low), "mask")
            with p.if_(i < y.length):
                y[i] = self._cast(mask & 63, made.widened)
        return call(p.build(), [source, target], grid=self._grid(target.nbytes // target.size, workgroup))

    def _special(self, arrays: Sequence[Array], workgroup: int) -> StageCall:
        source, target = self._two(arrays)
        element, made = self._element(source), self._element(target)
        spec = {"bound": Literal.of(_S.U32, self.random.choice((3, 90, 1000)))}
        with ProgramBuilder("special", workgroup=workgroup) as p:
            x, y = p.input("x", element), p.inout("y", made)
            i = p.let(p.global_id(), "i")
            with p.if_(i < p.spec("bound", 50)):
                y[i] = self._cast(x[i], made.widened)
        grid = self._grid(target.nbytes // target.size, workgroup)
        return call(p.build(), [source, target], grid=grid, spec=spec)

    def _wide_index(self, arrays: Sequence[Array], workgroup: int) -> StageCall:
        """Indices of other types, some of them negative."""
        source, target = self._two(arrays)
        element, made = self._element(source), self._element(target)
        kind = self.random.choice((_S.I32, _S.U64, _S.I64))
        shift = self.random.choice((0, 0, 3))
        with ProgramBuilder("wide_index", workgroup=workgroup) as p:
            x, y = p.input("x", element), p.inout("y", made)
            i = p.let(p.global_id().cast(kind) - shift, "i")
            y[i] = self._cast(x[i], made.widened)
        return call(p.build(), [source, target], grid=self._grid(target.nbytes // target.size, workgroup))

    def _rows(self, arrays: Sequence[Array], workgroup: int) -> StageCall:
        """Rows and columns, of a width that may be wrong; sometimes a neighbour."""
        rng = self.random
        source, target = self._two(arrays)
        element, made = self._element(source), self._element(target)
        width = rng.choice((10, 10, 7, 16))
        next_column = rng.choice((0, 0, 0, 1))
        memory: list[Array | Literal] = [source, target]
        with ProgramBuilder("rows", workgroup=(8, workgroup // 8)) as p:
            x, y = p.input("x", element), p.inout("y", made)
            columns: Any = width
            if rng.random() < 0.6:
                columns = p.param("columns", _S.U32)
                memory.append(Literal.of(_S.U32, width))
            column, row = p.let(p.global_id(0), "column"), p.let(p.global_id(1), "row")
            if rng.random() < 0.5:
                of_x, of_y = p.view2d(x, columns), p.view2d(y, columns)
                of_y[row, column] = self._cast(of_x[row, column + next_column], made.widened)
            else:
                at = p.let(row * columns + column, "at")
                with p.if_(column < columns):
                    y[at] = self._cast(x[at + next_column], made.widened)
        rows = -(-target.nbytes // target.size // width)
        return call(p.build(), memory, grid=(-(-width // 8), max(1, -(-rows // (workgroup // 8))), 1))
