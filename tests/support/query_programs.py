"""Random programs as queries: launches on inputs that partly differ, one by one and as one launch."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from support.programs import Case, Order, generate
from support.running import Failure, Outcome, Outputs, oracle
from vyre.domain.binding import plan_bindings
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.geometry import LaunchLimits
from vyre.domain.interface import resolve_launch
from vyre.domain.launch import Launch
from vyre.domain.queries import BatchedQueries, CannotBatch, QueryLaunch, batch_queries

LIMITS: Final = LaunchLimits("reference")


@dataclass(frozen=True)
class Queries:
    """Cases of one program that differ in their inputs; the inputs in ``shared`` are the same in all."""

    cases: tuple[Case, ...]
    shared: frozenset[str]
    launch: Launch

    def joined(self) -> BatchedQueries | CannotBatch:
        """The program that runs all cases at once."""
        case, launch = self.cases[0], self.launch
        return batch_queries(QueryLaunch(case.program, launch.grid, launch.workgroup, launch.counts, self.shared))


def queries(seed: int, count: int, *, order: Order = Order.INDEPENDENT, work: int = 8_000) -> Queries:
    """The queries of a seed: every input that the program only reads is shared by chance."""
    source = random.Random(seed)
    case = generate(seed, order=order, work=work)
    case = replace(case, config=replace(case.config, step_budget=None))  # which counts for one launch
    bound = case.program.abi_buffers
    shared = frozenset(b.name for b in bound if b.takes_input and not b.is_writable and source.random() < 0.5)
    cases = [case]
    for _ in range(count - 1):
        inputs = {name: data if name in shared else _other(data, source) for name, data in case.inputs.items()}
        cases.append(replace(case, inputs=inputs))
    lengths = tuple(len(case.inputs[b.name]) for b in bound if b.takes_input)
    return Queries(tuple(cases), shared, resolve_launch(case.program, lengths, case.config, LIMITS))


def _other(data: bytes, source: random.Random) -> bytes:
    """The same elements, of at most 8 bytes, in another order."""
    size = next(size for size in (8, 4, 2, 1) if len(data) % size == 0)
    parts = [data[at : at + size] for at in range(0, len(data), size)]
    source.shuffle(parts)
    return b"".join(parts)


def apart(given: Queries) -> list[Outcome]:
    """What the canonical schedule gives for each query."""
    return [oracle(case) for case in given.cases]


def together(given: Queries, found: BatchedQueries) -> list[Outcome]:
    """What the canonical schedule gives for each query when they are one launch."""
    return split(given, oracle(joined_case(given, found)))


def joined_case(given: Queries, found: BatchedQueries) -> Case:
    """The one launch of all queries."""
    case, program = given.cases[0], found.program
    inputs = {
        name: data if name in given.shared else b"".join(each.inputs[name] for each in given.cases)
        for name, data in case.inputs.items()
    }
    counts = dict(zip([b.buffer.name for b in plan_bindings(program).bindings], given.launch.counts, strict=True))
    outputs = {b.name: counts[b.name] * len(given.cases) for b in program.abi_buffers if b.is_output}
    config = DispatchConfig(grid=found.grid(len(given.cases)), spec=case.config.spec, output_counts=outputs)
    return Case(program, inputs, config, case.order)


def split(given: Queries, outcome: Outcome) -> list[Outcome]:
    """The outcome of each query from that of the one launch."""
    if isinstance(outcome, Failure):
        return [outcome] * len(given.cases)
    rows: list[dict[str, bytes]] = [{} for _ in given.cases]
    for name, data in outcome.bytes.items():
        for row, part in zip(rows, _rows(data, len(rows)), strict=True):
            row[name] = part
    return [Outputs(_returned(given.cases[0], row)) for row in rows]


def _rows(data: bytes, count: int) -> Sequence[bytes]:
    size = len(data) // count
    return [data[at * size : (at + 1) * size] for at in range(count)]


def _returned(case: Case, row: Mapping[str, bytes]) -> dict[str, bytes]:
    """The ranges of bytes that a query's own launch returns."""
    ranges = {b.name: b.output_range for b in case.program.abi_buffers}
    return {name: data if (r := ranges[name]) is None else data[r[0] : r[1]] for name, data in row.items()}
