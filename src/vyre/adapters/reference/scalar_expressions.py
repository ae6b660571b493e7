"""The steps of expressions on the scalar oracle: closures from the active lanes to their values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from vyre.adapters.reference.scalar_state import Evaluate, Lanes, Location, Values, Workgroup
from vyre.domain.ir.expr import IdKind
from vyre.domain.ir.operators import Span, SubgroupRow
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics import scalar

WIDTH: Final = 32


def constant(bits: int) -> Evaluate:
    """Returns the same bits for every lane."""
    return lambda wg, lanes: [bits] * len(lanes)


def local(name: str) -> Evaluate:
    """Returns the value of a local."""

    def evaluate(wg: Workgroup, lanes: Lanes) -> Values:
        values = wg.locals[name]
        return [values[lane] for lane in lanes]

    return evaluate


def load(name: str, index: Evaluate, loc: Location) -> Evaluate:
    """Returns elements of a buffer."""

    def evaluate(wg: Workgroup, lanes: Lanes) -> Values:
        buffer, indices = wg.buffers[name], index(wg, lanes)
        if wg.tracer is not None:
            for lane, i in zip(lanes, indices, strict=True):
                if 0 <= i < buffer.count:
                    wg.tracer.load(name, i * buffer.size, buffer.size, lane, loc)
        return [buffer.load(i) for i in indices]

    return evaluate


def private_load(name: str, index: Evaluate) -> Evaluate:
    """Returns elements of the lanes' own memory."""

    def evaluate(wg: Workgroup, lanes: Lanes) -> Values:
        return [wg.private_buffer(name, lane).load(i) for lane, i in zip(lanes, index(wg, lanes), strict=True)]

    return evaluate


def integers(evaluate: Evaluate, dtype: ScalarType) -> Evaluate:
    """Returns the numbers whose bit patterns of an integer type are given."""
    if not dtype.is_signed:
        return evaluate
    sign, turn = 1 << (dtype.bits - 1), 1 << dtype.bits
    return map_values(lambda bits: bits - turn if bits & sign else bits, evaluate)


def map_values(rule: Callable[[int], int], operand: Evaluate) -> Evaluate:
    """Returns a function of each lane's value."""
    return lambda wg, lanes: [rule(a) for a in operand(wg, lanes)]


def launch_id(kind: IdKind, axis: int) -> Evaluate:
    """Returns an id of each lane, or a size of the grid."""
    match kind:
        case IdKind.GLOBAL:
            return lambda wg, lanes: [wg.global_id(lane)[axis] for lane in lanes]
        case IdKind.LOCAL:
            return lambda wg, lanes: [wg.local_id(lane)[axis] for lane in lanes]
        case IdKind.GROUP:
            return lambda wg, lanes: [wg.group[axis]] * len(lanes)
        case IdKind.NUM_GROUPS:
            return lambda wg, lanes: [wg.launch.grid[axis]] * len(lanes)


def _subgroups(lanes: Lanes, values: Values) -> dict[int, dict[int, int]]:
    """Returns values by subgroup and lane of the subgroup."""
    subgroups: dict[int, dict[int, int]] = {}
    for lane, value in zip(lanes, values, strict=True):
        subgroups.setdefault(lane // WIDTH, {})[lane % WIDTH] = value
    return subgroups


def subgroup_reduce(row: SubgroupRow, operand: Evaluate, dtype: ScalarType) -> Evaluate:
    """Returns the values of each subgroup, folded in ascending lanes."""

    def evaluate(wg: Workgroup, lanes: Lanes) -> Values:
        results: dict[int, int] = {}
        for group, members in _subgroups(lanes, operand(wg, lanes)).items():
            total, first = row.start(dtype), group * WIDTH
            for lane, value in sorted(members.items()):
                before, total = total, scalar.binary(row.operator, dtype, total, value)
                results[first + lane] = before if row.span is Span.EXCLUSIVE else total
            if row.span is Span.ALL:
                results.update(dict.fromkeys([first + lane for lane in members], total))
        return [results[lane] for lane in lanes]

    return evaluate


def subgroup_ballot(operand: Evaluate) -> Evaluate:
    """Returns a u32 whose bit k is the vote of lane k of the subgroup."""

    def evaluate(wg: Workgroup, lanes: Lanes) -> Values:
        groups = _subgroups(lanes, operand(wg, lanes))
        votes = {g: sum(1 << lane for lane, vote in members.items() if vote) for g, members in groups.items()}
        return [votes[lane // WIDTH] for lane in lanes]

    return evaluate


def subgroup_shuffle(operand: Evaluate, source: Evaluate) -> Evaluate:
    """Returns the value of another lane of the subgroup, 0 where there is none."""

    def evaluate(wg: Workgroup, lanes: Lanes) -> Values:
        groups = _subgroups(lanes, operand(wg, lanes))
        sources = source(wg, lanes)
        return [groups[lane // WIDTH].get(wanted, 0) for lane, wanted in zip(lanes, sources, strict=True)]

    return evaluate
