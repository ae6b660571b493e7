"""What a backend lacks for a program: the one place that decides it, before anything is compiled.

``missing_from`` is empty exactly for programs that the backend runs, as far as memory suffices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from vyre.domain.device import DeviceProfile
from vyre.domain.dispatch import DEFAULT_CONFIG, DispatchConfig
from vyre.domain.errors import INDIRECT_FIX, UnsupportedFeature, VyreError
from vyre.domain.frozen import frozen
from vyre.domain.geometry import Excess, LaunchLimits, excesses, grid_of_extent
from vyre.domain.ir.expr import OF_SUBGROUP, Binary, Cast, Expr, Narrow, Pack, SpecConst, SubgroupShuffle, Unpack
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.program import Buffer, OpId, Program
from vyre.domain.ir.stmt import Barrier, GridLoop, Stmt, Trap
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.walk import program_statements, unique_expressions
from vyre.domain.names import Dim3
from vyre.domain.op_ids import INDIRECT_DISPATCH, op_of, required_ops
from vyre.domain.source_location import SourceLocation
from vyre.domain.validation.grid_barriers import splits_grid

SHARED_ALIGNMENT: Final = 16
"""Every workgroup buffer takes a multiple of so many bytes."""
_SHOWN: Final = 3
Part: TypeAlias = Buffer | Stmt | Expr
Test: TypeAlias = Callable[[Part], bool]


class MissingKind(Enum):
    """A lack of a backend: an operation, a type of elements, a feature of its profile, or room above a limit."""

    OPERATION = "operation"
    ELEMENT_TYPE = "element type"
    FEATURE = "feature"
    LIMIT = "limit"


@frozen
class Missing:
    """One thing that a program needs and a backend lacks; ``str`` of it is a line.

    ``name``: the id of an operation, the name of a type, or the field of the profile.  ``what``: the same in words.
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
    kind: MissingKind
    name: str
    what: str
    test: Test


def _stores(dtype: ScalarType) -> Test:
    def uses(part: Part) -> bool:
        if isinstance(part, Buffer):
            return part.element is dtype
        return isinstance(part, Cast | Narrow | Pack | Unpack) and part.dtype is dtype

    return uses


def _is(*types: type) -> Test:
    return lambda part: isinstance(part, types)


def _feature(flag: str, what: str, test: Test) -> _Rule:
    return _Rule((flag,), MissingKind.FEATURE, flag, what, test)


_RULES: Final = (
    _Rule(("stores_f16",), MissingKind.ELEMENT_TYPE, "f16", "the type f16", _stores(ScalarType.F16)),
    _Rule(("stores_bf16",), MissingKind.ELEMENT_TYPE, "bf16", "the type bf16", _stores(ScalarType.BF16)),
    _feature("supports_subgroup_ops", "operations of subgroups", _is(*OF_SUBGROUP)),
    _feature("has_subgroup_shuffle", "shuffles of subgroups", _is(SubgroupShuffle)),
    _feature("supports_specialization_constants", "specialization constants", _is(SpecConst)),
    _feature("supports_trap_propagation", "traps", _is(Trap)),
    _Rule(
        ("supports_grid_sync", "allows_host_grid_sync_split"),
        MissingKind.FEATURE,
        "supports_grid_sync",
        "barriers of the whole grid",
        lambda part: isinstance(part, Barrier | GridLoop) and splits_grid(part),
    ),
    _feature("has_mul_high", "high halves of products", lambda p: isinstance(p, Binary) and p.op is BinaryOp.MUL_HIGH),
    _feature("has_shared_memory", "workgroup memory", lambda part: isinstance(part, Buffer) and part.is_workgroup),
)
"""The flags that the language needs, with the parts of a program that need them."""
LANGUAGE_FLAGS: Final = frozenset(flag for rule in _RULES for flag in rule.flags)
"""The flags of a profile that say which programs run."""


def missing_from(
    program: Program, profile: DeviceProfile, supported_ops: frozenset[OpId], config: DispatchConfig = DEFAULT_CONFIG
) -> tuple[Missing, ...]:
    """Returns what the backend lacks for a valid program under a config; empty if it runs.

    The grid is compared with the limits where the config gives it.
    """
    lacking = sorted(required_ops(program) - supported_ops)
    needed = [_Rule((), MissingKind.OPERATION, op, f"operation {op}", _op_is(op)) for op in lacking]
    unclaimed = [rule for rule in _RULES if not any(getattr(profile, flag) for flag in rule.flags)]
    needed += [rule for rule in unclaimed if any(map(rule.test, _parts(program)))]
    missing = [Missing(rule.kind, rule.name, rule.what, locations=_places(program, rule.test)) for rule in needed]
    workgroup = config.workgroup or program.workgroup_size
    assert len(workgroup) == 3
    grid = config.grid or (1, 1, 1)
    if config.extent is not None:
        grid = grid_of_extent(config.extent, workgroup)
    for excess, places in _excesses(program, grid, workgroup, profile.launch_limits()):
        missing.append(Missing(MissingKind.LIMIT, excess.field, excess.what, excess.size, excess.most, places))
    return tuple(missing)


def refusal(lacks: Sequence[Missing], backend: str) -> VyreError:
    """Returns the error of a program for which a backend lacks something."""
    if all(each.kind is MissingKind.LIMIT for each in lacks):
        first = lacks[0]
        assert first.needed is not None and first.offered is not None
        return Excess(first.name, first.placed, first.needed, first.offered).error(backend)
    fix = INDIRECT_FIX if any(each.name == INDIRECT_DISPATCH for each in lacks) else None
    return UnsupportedFeature(feature="; ".join(map(str, lacks)), backend=backend, fix=fix)


def check_program(program: Program, limits: LaunchLimits) -> None:
    """Raises ``InvalidProgram`` for a program above a limit of a backend, which its pipelines check alone."""
    for excess, _ in _excesses(program, (1, 1, 1), program.workgroup_size, limits):
        raise excess.error(limits.backend)


def shared_nbytes(program: Program) -> int:
    """Returns the bytes of workgroup memory that the program takes."""
    sizes = [buffer.static_nbytes or 0 for buffer in program.buffers if buffer.is_workgroup]
    return sum(-(-size // SHARED_ALIGNMENT) * SHARED_ALIGNMENT for size in sizes)


Places: TypeAlias = tuple[SourceLocation, ...]


def _excesses(program: Program, grid: Dim3, workgroup: Dim3, limits: LaunchLimits) -> Iterator[tuple[Excess, Places]]:
    for excess in excesses(grid, workgroup, limits):
        yield excess, ()
    most, needed = limits.max_shared_memory_bytes, shared_nbytes(program)
    if most is not None and needed > most:
        shared = [buffer for buffer in program.buffers if buffer.is_workgroup]
        yield Excess("max_shared_memory_bytes", "workgroup memory in bytes", needed, most), _located(shared)
    for buffer in program.buffers if limits.max_storage_buffer_bytes is not None else ():
        size, largest = buffer.static_nbytes or 0, limits.max_storage_buffer_bytes or 0
        if size > largest and not buffer.is_workgroup and not buffer.is_private:
            what = f"number of bytes in buffer `{buffer.name}`"
            yield Excess("max_storage_buffer_bytes", what, size, largest), _located([buffer])


def _parts(program: Program) -> Iterator[Part]:
    yield from program.buffers
    yield from program_statements(program)
    yield from unique_expressions(program)


def _op_is(op: OpId) -> Test:
    return lambda part: not isinstance(part, Buffer) and op_of(part) == op


def _places(program: Program, test: Test) -> Places:
    return _located([part for part in _parts(program) if test(part)])


def _located(parts: Sequence[Part]) -> Places:
    places = {part.loc for part in parts if part.loc is not None}
    return tuple(sorted(places, key=lambda place: (place.file, place.line, place.column or 0)))
