"""What a backend lacks for a program: the one place that decides it, before anything is compiled.

``missing_from`` is empty exactly for programs that the backend runs, as far as memory suffices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from vyre.domain.device import DeviceProfile
from vyre.domain.dispatch import DEFAULT_CONFIG, DispatchConfig
from vyre.domain.errors import DeviceLimitExceeded, UnsupportedFeature, VyreError
from vyre.domain.frozen import frozen
from vyre.domain.geometry import LaunchLimits, excesses
from vyre.domain.interface import interface_of
from vyre.domain.ir.expr import (
    OF_SUBGROUP,
    Atomic,
    Binary,
    Expr,
    SpecConst,
    SubgroupReduce,
    SubgroupShuffle,
    Unary,
    children,
)
from vyre.domain.ir.operators import OperatorAt, operators_at
from vyre.domain.ir.program import Buffer, OpId, Program
from vyre.domain.ir.stmt import Barrier, GridLoop, Stmt, Trap
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.walk import program_statements, unique_expressions
from vyre.domain.launch import geometry_of, sizes_of
from vyre.domain.limit_places import limit_places, place_limit
from vyre.domain.names import Dim3
from vyre.domain.op_ids import ALL_OPS, INDIRECT_DISPATCH, INDIRECT_FIX, op_of, required_ops
from vyre.domain.source_location import SourceLocation, joined_places
from vyre.domain.validation.grid_barriers import splits_grid

SHARED_ALIGNMENT: Final = 16
"""Every workgroup buffer takes a multiple of so many bytes."""
_SHOWN: Final = 3
Part: TypeAlias = Buffer | Stmt | Expr
Test: TypeAlias = Callable[[Part], bool]


class MissingKind(Enum):
    """A lack of a backend: an operation, a type, an operator on a type, a feature of its profile, or room above a
    limit.
    """

    OPERATION = "operation"
    ELEMENT_TYPE = "element type"
    OPERATOR = "operator"
    FEATURE = "feature"
    LIMIT = "limit"


@frozen
class Missing:
    """One thing that a program needs and a backend lacks; ``str`` of it is a line.

    ``name``: the id of an operation, the name of a type, an operator with its type such as ``sqrt f64``, or the field
    of the profile.  ``what``: the same in words.
    ``needed`` and ``offered``: for a limit, the size in the unit of the limit.  ``locations``: the places that need it.
    """

    kind: MissingKind
    name: str
    what: str
    needed: int | None = None
    offered: int | None = None
    locations: tuple[SourceLocation, ...] = ()

    def __str__(self) -> str:
        sizes = "" if self.needed is None else f": {self.needed}, where {self.offered} is the most"
        return f"{self.placed}{sizes}"

    @property
    def placed(self) -> str:
        """The missing part, with the first places that need it."""
        more = ", ..." if len(self.locations) > _SHOWN else ""
        places = ", ".join(map(str, self.locations[:_SHOWN]))
        return f"{self.what} (at {places}{more})" if places else self.what


class _Rule(NamedTuple):
    """Flags of a profile, one of which a program needs if a part of it passes the test."""

    flags: tuple[str, ...]
    name: str
    what: str
    test: Test


def _is(*types: type) -> Test:
    return lambda part: isinstance(part, types)


def _feature(flag: str, what: str, test: Test) -> _Rule:
    return _Rule((flag,), flag, what, test)


_RULES: Final = (
    _feature("supports_subgroup_ops", "operations of subgroups", _is(*OF_SUBGROUP)),
    _feature("has_subgroup_shuffle", "shuffles of subgroups", _is(SubgroupShuffle)),
    _feature("supports_specialization_constants", "specialization constants", _is(SpecConst)),
    _feature("supports_trap_propagation", "traps", _is(Trap)),
    _Rule(
        ("supports_grid_sync", "allows_host_grid_sync_split"),
        "supports_grid_sync",
        "barriers of the whole grid",
        lambda part: isinstance(part, Barrier | GridLoop) and splits_grid(part),
    ),
    _feature("has_shared_memory", "workgroup memory", lambda part: isinstance(part, Buffer) and part.is_workgroup),
)
"""The flags that the language needs, with the parts of a program that need them."""
LANGUAGE_FLAGS: Final = frozenset(flag for rule in _RULES for flag in rule.flags)
"""The flags of a profile that say which programs run."""


def missing_from(
    program: Program,
    profile: DeviceProfile,
    supported_ops: frozenset[OpId],
    config: DispatchConfig = DEFAULT_CONFIG,
    input_nbytes: tuple[int, ...] | None = None,
) -> tuple[Missing, ...]:
    """Returns what the backend lacks for a valid program under a config; empty if it runs.

    ``input_nbytes``: the length of each input in bytes, from which the grid and the sizes of buffers follow; without
    them, what the config gives of the grid and the program of the sizes is compared with the limits.  Raises the errors
    of ``launch_of`` for inputs and a grid that do not fit the program.
    """
    lacking = sorted(required_ops(program) - supported_ops)
    missing = [
        Missing(MissingKind.OPERATION, op, f"operation {op}", locations=_op_places(program, op)) for op in lacking
    ]
    missing += _undeclared(program, profile)
    for rule in _RULES:
        if not any(getattr(profile, flag) for flag in rule.flags):
            parts = list(filter(rule.test, _parts(program)))
            missing += [Missing(MissingKind.FEATURE, rule.name, rule.what, locations=_located(parts))] if parts else []
    grid, workgroup = _launched(program, config, input_nbytes)
    sizes = {} if input_nbytes is None else sizes_of(interface_of(program).plan, input_nbytes, config)
    for excess in _excesses(program, grid, workgroup, profile.launch_limits(), sizes):
        places = limit_places(excess, program)
        missing.append(Missing(MissingKind.LIMIT, excess.limit, excess.what, excess.needed, excess.offered, places))
    return tuple(missing)


def undeclared_in(program: Program, profile: DeviceProfile) -> frozenset[str]:
    """Returns the names of the types and operators of a program that a profile does not have."""
    return frozenset(each.name for each in _undeclared(program, profile))


def _undeclared(program: Program, profile: DeviceProfile) -> Iterator[Missing]:
    """Yields the types and operators of a program that a profile does not have; most have them all."""
    places: dict[tuple[MissingKind, str], list[Part]] = {}
    if not profile.element_types.issuperset(ScalarType):
        for part in _parts(program):
            for dtype in _types_of(part) - profile.element_types:
                places.setdefault((MissingKind.ELEMENT_TYPE, dtype.text), []).append(part)
    if not profile.operators.issuperset(operators_at()):
        for part, operator in _operators_of(program):
            if operator not in profile.operators and operator.dtype in profile.element_types:
                places.setdefault((MissingKind.OPERATOR, str(operator)), []).append(part)
    for (kind, name), parts in sorted(places.items(), key=lambda item: item[0][1]):
        what = f"the type {name}" if kind is MissingKind.ELEMENT_TYPE else f"the operator {name}"
        yield Missing(kind, name, what, locations=_located(parts))


def _types_of(part: Part) -> frozenset[ScalarType]:
    """Returns the types that a part of a program states, with those of the values that it gives."""
    stating = part.default if isinstance(part, SpecConst) else part
    dtype = stating.element if isinstance(stating, Buffer) else getattr(stating, "dtype", None)
    return frozenset((dtype, dtype.widened)) if isinstance(dtype, ScalarType) else frozenset()


def _operators_of(program: Program) -> Iterator[tuple[Expr, OperatorAt]]:
    from vyre.domain.optimize.static_types import StaticTypes  # most backends have all operators
    from vyre.domain.optimize.walking import with_unique_locals

    program = with_unique_locals(program)
    types = StaticTypes(program)
    types.declare_all(program_statements(program))
    for part in unique_expressions(program):
        match part:
            case Binary():
                yield part, OperatorAt(part.op, types.of(part.left))
            case Unary() | SubgroupReduce():
                yield part, OperatorAt(part.op, types.of(children(part)[0]))
            case Atomic():
                yield part, OperatorAt(part.op, types.of(part))


def _launched(program: Program, config: DispatchConfig, input_nbytes: tuple[int, ...] | None) -> tuple[Dim3, Dim3]:
    """Returns grid and workgroup of a launch; a grid that follows from inputs which are not given is (1, 1, 1)."""
    if input_nbytes is None and not (config.grid or config.extent or config.element_count_override is not None):
        return (1, 1, 1), config.workgroup or program.workgroup_size
    geometry = geometry_of(interface_of(program), input_nbytes or (), config)
    return geometry.grid, geometry.workgroup


def undeclared(profile: DeviceProfile, supported_ops: frozenset[OpId]) -> frozenset[str]:
    """Returns the names of all operations, types, operators and features that a program can lack on a backend."""
    names: set[str] = {*(ALL_OPS - supported_ops), *map(str, {*ScalarType} - profile.element_types)}
    names.update(rule.name for rule in _RULES if not any(getattr(profile, flag) for flag in rule.flags))
    names.update(str(each) for each in operators_at() - profile.operators if each.dtype in profile.element_types)
    return frozenset(names)


def refusal(lacks: Sequence[Missing], backend: str) -> VyreError:
    """Returns the error of a program for which a backend lacks something."""
    if all(each.kind is MissingKind.LIMIT for each in lacks):
        first = lacks[0]
        assert first.needed is not None and first.offered is not None
        error = LaunchLimits(backend).excess(first.name, first.what, first.needed, first.offered)
        if (place := joined_places(*first.locations)) is not None:
            error.place(place)
        return error
    fix = INDIRECT_FIX if any(each.name == INDIRECT_DISPATCH for each in lacks) else None
    return UnsupportedFeature(feature="; ".join(map(str, lacks)), backend=backend, fix=fix)


def check_program(program: Program, limits: LaunchLimits) -> None:
    """Raises ``DeviceLimitExceeded`` for a program above a limit of a backend, which its pipelines check alone."""
    for excess in _excesses(program, (1, 1, 1), program.workgroup_size, limits, {}):
        place_limit(excess, program)
        raise excess


def shared_nbytes(program: Program) -> int:
    """Returns the bytes of workgroup memory that the program takes."""
    sizes = [buffer.static_nbytes or 0 for buffer in program.buffers if buffer.is_workgroup]
    return sum(-(-size // SHARED_ALIGNMENT) * SHARED_ALIGNMENT for size in sizes)


Places: TypeAlias = tuple[SourceLocation, ...]


def _excesses(
    program: Program, grid: Dim3, workgroup: Dim3, limits: LaunchLimits, sizes: Mapping[str, int]
) -> Iterator[DeviceLimitExceeded]:
    yield from excesses(grid, workgroup, limits)
    most, needed = limits.max_shared_memory_bytes, shared_nbytes(program)
    if most is not None and needed > most:
        yield limits.excess("max_shared_memory_bytes", "workgroup memory in bytes", needed, most)
    for buffer in program.abi_buffers:
        try:
            limits.check_buffer(buffer.name, sizes.get(buffer.name, buffer.static_nbytes or 0))
        except DeviceLimitExceeded as excess:
            yield excess


def _parts(program: Program) -> Iterator[Part]:
    yield from program.buffers
    yield from program_statements(program)
    yield from unique_expressions(program)


def _op_places(program: Program, op: OpId) -> Places:
    return _located([part for part in _parts(program) if not isinstance(part, Buffer) and op_of(part) == op])


def _located(parts: Sequence[Part]) -> Places:
    places = {part.loc for part in parts if part.loc is not None}
    return tuple(sorted(places, key=lambda place: (place.file, place.line, place.column or 0)))
