"""Laws of subgroup operations, and their checker, which computes all lanes of a subgroup.

A subgroup has 32 lanes, of which the last one of a workgroup may have fewer: a law must hold for every number of lanes
that exist.  Flow is uniform where subgroup operations stand, so that all of these take part.  In the model a subgroup
has three lanes and every type 8 bits: a law of one hole is tried on all pairs of values and on all triples of boundary
values, a law of more on all boundary values in every lane.  At the real width it is tried on random values.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple

from vyre.domain.dialects.laws.checker import boundary_values
from vyre.domain.dialects.laws.evaluation import PURE_NODES, SCALARS, ScalarAlgebra, evaluated
from vyre.domain.dialects.laws.law import Law
from vyre.domain.dialects.laws.model import TableAlgebra, all_values
from vyre.domain.ir.expr import EXCHANGING, Expr, SubgroupBallot, SubgroupLane, SubgroupReduce, Var
from vyre.domain.ir.node import Node
from vyre.domain.ir.operators import SUBGROUP, BinaryOp, Span, SubgroupRow
from vyre.domain.ir.rebuilding import rebuilt
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics import scalar
from vyre.domain.validation.typing import static_type

_S: Final = ScalarType
OPERATIONS: Final = EXCHANGING
LANES: Final = 32
MODEL_LANES: Final = 3
_MODEL: Final = {_S.U32: _S.U8, _S.I32: _S.I8, _S.U64: _S.U8, _S.I64: _S.I8}
_BOUNDARIES: Final = (0, 1, 2, 127, 128, 254, 255)
_TRIALS: Final = 60
_SIZES: Final = (1, 2, 17, 31, 32)
"""The numbers of lanes that exist, at the real width."""


@dataclass(frozen=True, eq=False)
class SubgroupLaw(Law):
    """An equation with subgroup operations; holes in ``uniform`` have one value in all lanes of a subgroup."""

    NODES: ClassVar[frozenset[type[Node]]] = PURE_NODES | OPERATIONS | {SubgroupLane}
    uniform: frozenset[str] = frozenset()

    def at(self, dtype: ScalarType) -> tuple[Expr, Expr]:
        """Returns both sides for one type; raises as ``Law.at`` does."""
        return self.sides(dtype)


class LaneExample(NamedTuple):
    """Values of the lanes for which the sides of a law differ; all are bit patterns."""

    law: str
    is_model: bool
    values: Mapping[str, tuple[int, ...]]
    before: tuple[int, ...]
    after: tuple[int, ...]

    def __str__(self) -> str:
        text = ", ".join(f"{name} = {list(lanes)}" for name, lanes in self.values.items())
        count, where = len(self.before), " in the model" if self.is_model else ""
        return f"{list(self.before)} is not {list(self.after)} in {count} lanes{where}{f' with {text}' if text else ''}"


_INTEGERS: Final = frozenset({_S.U32, _S.I32, _S.U64, _S.I64})
_FLOATS: Final = frozenset({_S.F32, _S.F64})
_U32: Final = frozenset({_S.U32})
_BOOLS: Final = {"p": _S.BOOL, "q": _S.BOOL}
_LANE: Final = {"k": _S.U32}


def _ballots(name: str, of_bits: str, of_lanes: str) -> SubgroupLaw:
    """Returns the law that computes bits of two ballots before the lanes vote."""
    before = f"subgroup_ballot(p) {of_bits} subgroup_ballot(q)"
    return SubgroupLaw(name, before, f"subgroup_ballot(p {of_lanes} q)", _U32, _BOOLS)


SUBGROUP_LAWS: Final = (
    SubgroupLaw("subgroup_add.nothing", "subgroup_add(0)", "0", _INTEGERS),
    SubgroupLaw("subgroup_add.no_float", "subgroup_add(0.0)", "0.0", _FLOATS),
    SubgroupLaw("subgroup_add.sum", "subgroup_add(x) + subgroup_add(y)", "subgroup_add(x + y)", _INTEGERS),
    SubgroupLaw("subgroup_add.difference", "subgroup_add(x) - subgroup_add(y)", "subgroup_add(x - y)", _INTEGERS),
    SubgroupLaw("subgroup_ballot.none", "subgroup_ballot(false)", "0", _U32),
    _ballots("subgroup_ballot.both", "&", "and"),
    _ballots("subgroup_ballot.either", "|", "or"),
    _ballots("subgroup_ballot.one", "^", "!="),
    SubgroupLaw("subgroup_shuffle.own_lane", "subgroup_shuffle(x, subgroup_lane())", "x", _INTEGERS | _FLOATS),
    SubgroupLaw("subgroup_shuffle.nothing", "subgroup_shuffle(0, k)", "0", _INTEGERS, _LANE),
    SubgroupLaw("subgroup_shuffle.no_float", "subgroup_shuffle(0.0, k)", "0.0", _FLOATS, _LANE),
    SubgroupLaw(
        "subgroup_shuffle.uniform", "subgroup_shuffle(x, 0u)", "x", _INTEGERS | _FLOATS, uniform=frozenset({"x"})
    ),
)  # fmt: skip
"""Every law, each name once.  They are rewritten from left to right."""


def check_lanes(law: SubgroupLaw, dtype: ScalarType, *, seed: int = 0) -> LaneExample | None:
    """Returns lanes for which the sides of a law differ at a type, None if none were found."""
    sides = law.at(dtype)
    holes = law.hole_types(dtype)
    if not dtype.is_float:
        for values in _model_values(law, holes):
            example = _differing(law, dtype, sides, holes, values)
            if example is not None:
                return example
    source = random.Random(seed)
    for _ in range(_TRIALS):
        for lanes in _SIZES:
            drawn = {name: _drawn(source, holes[name], lanes, name in law.uniform) for name in holes}
            before, after = (lane_values(side, holes, drawn, SCALARS, lanes) for side in sides)
            if any(not _is_equal(dtype, a, b) for a, b in zip(before, after, strict=True)):
                return LaneExample(
                    law.name, False, {n: tuple(v) for n, v in drawn.items()}, tuple(before), tuple(after)
                )
    return None


def _is_equal(dtype: ScalarType, a: int, b: int) -> bool:
    return a == b or (dtype.is_float and scalar.is_nan(dtype, a) and scalar.is_nan(dtype, b))


def _drawn(source: random.Random, dtype: ScalarType, lanes: int, is_uniform: bool) -> list[int]:
    def one() -> int:
        if source.random() < 0.5:
            return source.choice(boundary_values(dtype))
        if dtype is _S.U32 and source.random() < 0.5:
            return source.randrange(LANES + 2)  # the number of a lane
        return source.getrandbits(1 if dtype is _S.BOOL else dtype.bits)

    return [one()] * lanes if is_uniform else [one() for _ in range(lanes)]


def _model_values(law: SubgroupLaw, holes: Mapping[str, ScalarType]) -> Iterator[dict[str, list[Any]]]:
    """Yields arrays of values for each hole and lane, for one lane, for two and for three."""
    import numpy as np

    for lanes in range(1, MODEL_LANES + 1):
        axes = [(name, lane) for name in holes for lane in range(1 if name in law.uniform else lanes)]
        small = len(axes) <= 2
        columns = []
        for name, _ in axes:
            dtype = holes[name]
            every = dtype is _S.BOOL or small
            values = all_values(_MODEL.get(dtype, dtype)) if every else np.asarray(_BOUNDARIES, np.uint8)
            columns.append(values)
        grids = np.meshgrid(*columns, indexing="ij") if columns else []
        grid_values = {axis: grid.reshape(-1) for axis, grid in zip(axes, grids, strict=True)}
        yield {
            name: [grid_values[name, 0 if name in law.uniform else lane] for lane in range(lanes)] for name in holes
        } or {"": [np.zeros(1, np.uint8)] * lanes}


def _differing(
    law: SubgroupLaw,
    dtype: ScalarType,
    sides: tuple[Expr, Expr],
    holes: Mapping[str, ScalarType],
    values: Mapping[str, list[Any]],
) -> LaneExample | None:
    import numpy as np

    lanes = len(next(iter(values.values())))
    before, after = (lane_values(side, holes, values, TableAlgebra(_MODEL), lanes) for side in sides)
    pairs = [np.broadcast_arrays(a, b) for a, b in zip(before, after, strict=True)]
    wrong = np.zeros(1, bool)
    for a, b in pairs:
        wrong = wrong | (a != b)
    if not wrong.any():
        return None
    place = int(np.flatnonzero(wrong.reshape(-1))[0])

    def at(array: Any) -> int:
        return int(np.broadcast_to(array, wrong.shape).reshape(-1)[place])

    operands = {name: tuple(map(at, values[name])) for name in holes}
    return LaneExample(law.name, True, operands, tuple(at(a) for a, _ in pairs), tuple(at(b) for _, b in pairs))


def lane_values(
    expr: Expr, holes: Mapping[str, ScalarType], values: Mapping[str, Sequence[Any]], algebra: ScalarAlgebra, lanes: int
) -> list[Any]:
    """Returns the value of an expression of ``SubgroupLaw.NODES`` in each of the lanes that exist.

    ``holes`` and ``values`` are the types of its variables, and their values in each lane.
    """
    types, known = dict(holes), dict(values)

    def in_lane(node: Expr, lane: int) -> Any:
        return evaluated(node, types, {name: lanes_of[lane] for name, lanes_of in known.items()}, algebra)

    def replaced(node: Any) -> Any:
        if type(node) not in OPERATIONS and type(node) is not SubgroupLane:
            return node
        dtype = static_type(node, types, {})
        assert dtype is not None
        name = f"made {len(known)}"
        known[name] = _operation(node, dtype, lanes, in_lane, algebra)
        types[name] = dtype
        return Var(name, loc=node.loc)

    plain: Expr = rebuilt(expr, replaced)
    return [in_lane(plain, lane) for lane in range(lanes)]


def _folded(row: SubgroupRow, dtype: ScalarType, values: list[Any], algebra: ScalarAlgebra) -> list[Any]:
    total = algebra.literal(dtype, row.start(dtype))
    totals = [total]
    for value in values:
        total = algebra.binary(row.operator, dtype, dtype, total, value)
        totals.append(total)
    if row.span is Span.ALL:
        return [total] * len(values)
    return totals[1:] if row.span is Span.INCLUSIVE else totals[:-1]


def _operation(
    node: Any, dtype: ScalarType, lanes: int, of: Callable[[Expr, int], Any], algebra: ScalarAlgebra
) -> list[Any]:
    """Returns the value of a subgroup operation in each lane; ``of`` evaluates an operand in one."""
    if type(node) is SubgroupLane:
        return [algebra.literal(_S.U32, lane) for lane in range(lanes)]
    if type(node) is SubgroupReduce:
        return _folded(SUBGROUP[node.op], dtype, [of(node.value, lane) for lane in range(lanes)], algebra)
    if type(node) is SubgroupBallot:
        bits, nothing = algebra.literal(_S.U32, 0), algebra.literal(_S.U32, 0)
        for lane in range(lanes):
            bit = algebra.select(_S.U32, of(node.condition, lane), algebra.literal(_S.U32, 1 << lane), nothing)
            bits = algebra.binary(BinaryOp.BIT_OR, _S.U32, _S.U32, bits, bit)
        return [bits] * lanes
    values, results = [of(node.value, lane) for lane in range(lanes)], []
    for reader in range(lanes):
        wanted, chosen = of(node.lane, reader), algebra.literal(dtype, 0)
        for lane, value in enumerate(values):
            is_it = algebra.binary(BinaryOp.EQ, _S.U32, _S.U32, wanted, algebra.literal(_S.U32, lane))
            chosen = algebra.select(dtype, is_it, value, chosen)
        results.append(chosen)
    return results
