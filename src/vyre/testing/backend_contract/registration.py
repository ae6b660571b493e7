"""Cases of ``BackendRegistration``, of the backend that it makes, and of the claims of its profile.

Cases of what a backend claims: every flag of its profile and every operation that it lists is used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import partial
from typing import Any, Final, NamedTuple

from vyre.domain.device import DeviceProfile, claimed_features
from vyre.domain.dialects.native_text import LANGUAGES
from vyre.domain.dispatch import DispatchConfig, TimingQuality
from vyre.domain.errors import BackendError, DeviceLimitExceeded, TrapError, UnsupportedFeature
from vyre.domain.ir.operators import operators_at
from vyre.domain.ir.types import ScalarType, bool_, u32, u64
from vyre.domain.missing import LANGUAGE_FLAGS, missing_from
from vyre.domain.op_ids import ALL_OPS, INDIRECT_DISPATCH, native_op
from vyre.ports.backend import PORT_API_VERSION, Backend, BackendRole
from vyre.ports.ownership import check_ownership
from vyre.testing.backend_contract.bench import (
    INCREMENT,
    TRAP,
    Bench,
    Kernel,
    Skipped,
    Storage,
    equal,
    holds,
    mapped,
    program_of,
    refusal,
    words,
)
from vyre.testing.backend_contract.case import Group

CLAIMS: Final = Group("claims")
_MANY: Final = 8192
"""Workgroups of which no device holds all at once."""


def lacks(bench: Bench, kernel: Kernel, **config: object) -> list[str]:
    """Returns the names of what the backend lacks for a kernel.  ``config``: fields of ``DispatchConfig``."""
    backend, settings = bench.backend, DispatchConfig(**config)  # type: ignore[arg-type]  # as the caller gives them
    lacking = missing_from(program_of(kernel), backend.profile, backend.supported_ops, settings)
    return [missing.name for missing in lacking]


class _Probe(NamedTuple):
    """A kernel that needs a feature, its input, and the words that it comes to."""

    kernel: str
    operands: tuple[int, ...]
    wanted: tuple[int, ...]


def _across(groups: int) -> _Probe:
    return _Probe(
        f"""
        workgroup_size 1, 1, 1
        buffer x @0 read u32[{groups}]
        buffer y @1 read_write u32[{groups}] output
        buffer z @2 write u32[{groups}]
        body {{ y[gid.x] = x[gid.x] + 1u barrier(grid_sync) z[gid.x] = y[{groups - 1}u - gid.x] }}
        """,
        tuple(range(groups)),
        tuple(range(1, groups + 1)) + tuple(range(groups, 0, -1)),
    )


def _narrow(element: str, value: str) -> str:
    return f"""
    workgroup_size 2, 1, 1
    buffer x @0 read {element}[2]
    buffer y @1 write {element}[2]
    body {{ y[gid.x] = {value} }}
    """


_LANES: Final = tuple(range(32))
_PROBES: Final[Mapping[str, _Probe]] = {
    "supports_subgroup_ops": _Probe(mapped("y[i] = subgroup_add(x[i])", 32), _LANES, (496,) * 32),
    "has_subgroup_shuffle": _Probe(mapped("y[i] = subgroup_shuffle(x[i], 31u - i)", 32), _LANES, _LANES[::-1]),
    "supports_specialization_constants": _Probe(mapped("y[i] = x[i] + spec(more, 5u)"), (1, 2), (6, 7)),
    # (1 + 3e) (1 + 3e) - 1, with e of 2^-10 or 2^-7, of a product that is rounded; and NaN
    "supports_f16": _Probe(_narrow("f16", "narrow<f16>(x[gid.x] * x[gid.x]) - 1f"), (0x7C01_3C03,), (0x7E00_1E00,)),
    "supports_bf16": _Probe(_narrow("bf16", "narrow<bf16>(x[gid.x] * x[gid.x]) - 1f"), (0x7F81_3F83,), (0x7FC0_3D40,)),
    "supports_trap_propagation": _Probe(TRAP, (1, 2, 3), (2, 3, 4)),
    "supports_grid_sync": _across(4),
    "allows_host_grid_sync_split": _across(_MANY),
    "has_shared_memory": _Probe(
        """
        workgroup_size 4, 1, 1
        buffer x @0 read u32[4]
        buffer y @1 write u32[4]
        buffer shared @- workgroup u32[4]
        body { shared[lid.x] = x[gid.x] barrier(seq_cst) y[gid.x] = shared[3u - lid.x] }
        """,
        (1, 2, 3, 4),
        (4, 3, 2, 1),
    ),
}


@CLAIMS.table({flag: flag for flag in _PROBES})
def a_claimed_feature_works(bench: Bench, flag: str) -> None:
    """A program that needs a claimed feature of the language lacks nothing, and runs."""
    bench.need(flag)
    probe = _PROBES[flag]
    program = bench.program(probe.kernel)
    equal(lacks(bench, program), [], "what is missing")
    inputs = words(*probe.operands)
    equal(b"".join(bench.run(program, inputs)), words(*probe.wanted))
    if flag == "supports_trap_propagation":
        equal(bench.refuses(TrapError, TRAP, words(1, 9)).address, 1, "the address of the trap")


def _persistent(bench: Bench) -> bool:
    facet = bench.backend.persistent
    if facet is None:
        return False
    try:
        facet.open(bench.program(INCREMENT), DispatchConfig(), (16,), 2).close()
    except BackendError:
        return False
    return True


_FACTS: Final[Mapping[str, Callable[[Bench], bool]]] = {
    "supports_async_compute": lambda bench: bench.backend.async_executor is not None,
    "supports_persistent_threads": _persistent,
    "supports_speculation": lambda bench: bool(bench.backend.memory and bench.backend.resident_executor),
    "supports_indirect_dispatch": lambda bench: INDIRECT_DISPATCH in bench.backend.supported_ops,
}


@CLAIMS.table({flag: flag for flag in _FACTS})
def a_claim_and_its_facet_agree(bench: Bench, flag: str) -> None:
    """A feature of launches is claimed exactly if the backend has what it needs."""
    equal(getattr(bench.backend.profile, flag), _FACTS[flag](bench), flag)


COVERED: Final = _PROBES.keys() | _FACTS.keys() | {"supports_device_timestamps"}
"""Features that cases of this suite use."""


@CLAIMS.case()
def every_claim_is_tested(bench: Bench) -> None:
    """A backend claims no feature that this suite does not use."""
    holds(_PROBES.keys() >= LANGUAGE_FLAGS, "a flag of the language has no probe")
    equal(claimed_features(bench.backend.profile) - COVERED, frozenset(), "claims without a case")


@CLAIMS.case()
def types_and_operators_are_those_of_the_language(bench: Bench) -> None:
    """A profile declares types and operators of the language, u32 and bool among them."""
    profile = bench.backend.profile
    holds(profile.element_types >= {u32, bool_}, "u32 or bool is not declared")
    equal(profile.operators - operators_at(), frozenset(), "operators that do not exist")
    equal(profile.element_types - {*ScalarType}, frozenset(), "types that do not exist")


@CLAIMS.case()
def an_indirect_dispatch_runs(bench: Bench) -> None:
    """A backend that lists the statement runs it; the programs of other groups use every other operation."""
    kernel = "workgroup_size 4, 1, 1 buffer x @0 read_write u32[4] body { indirect_dispatch(x, 0) }"
    equal(bench.words(kernel, words(1, 1, 1, 0), grid=(1, 1, 1)), [1, 1, 1, 0])


REGISTRATION: Final = Group("registration")
PROFILE: Final = Group("profile")


# ---------------------------------------------------------------- the registration
@REGISTRATION.case()
def it_speaks_this_version_of_the_port(bench: Bench) -> None:
    """``api_version`` is that of the port."""
    equal(bench.subject.registration.api_version, PORT_API_VERSION)


@REGISTRATION.case()
def its_id_is_a_name(bench: Bench) -> None:
    """The id consists of lower-case letters, digits and hyphens; the backend and its profile have the same."""
    name = bench.subject.registration.id
    holds(re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name) is not None, f"{name!r} is no id")
    equal((bench.backend.id, bench.backend.profile.backend), (name, name), "the ids")


@REGISTRATION.case()
def it_has_a_role_and_a_rank(bench: Bench) -> None:
    """A registration has a role of the port, and a rank that orders backends."""
    registration = bench.subject.registration
    holds(isinstance(registration.role, BackendRole), f"the role is {registration.role!r}")
    holds(type(registration.rank) is int, f"the rank is {registration.rank!r}")
    holds(registration.role is not BackendRole.EMIT_ONLY, "a backend that only emits has nothing to judge")


@REGISTRATION.case()
def probing_twice_gives_the_same(bench: Bench) -> None:
    """``probe`` changes nothing: it is repeatable, also beside an open backend."""
    probe = bench.subject.registration.probe
    first = probe()
    before = bench.words(INCREMENT, words(1))
    equal((probe(), bench.words(INCREMENT, words(1))), (first, before))


@REGISTRATION.case()
def the_probe_tells_the_profile(bench: Bench) -> None:
    """A backend has the profile that was probed."""
    equal(bench.subject.registration.probe(), bench.backend.profile)


@REGISTRATION.case()
def each_backend_is_new(bench: Bench) -> None:
    """The factory makes a new backend each time."""
    with bench.subject.fresh() as one, bench.subject.fresh() as two:
        holds(one is not two and one.executor is not two.executor, "two backends share an executor")
        equal(one.profile, two.profile, "the profiles")


@REGISTRATION.case()
def it_has_a_version(bench: Bench) -> None:
    """Certificates and caches carry the version."""
    holds(bool(bench.backend.version) and bench.backend.version != "unspecified", "the version is not specified")


@REGISTRATION.case()
def its_operations_exist(bench: Bench) -> None:
    """``supported_ops`` are operations of the language, or stand for native text in a known language."""
    equal(bench.backend.supported_ops - ALL_OPS - set(map(native_op, LANGUAGES)), frozenset(), "unknown operations")
    holds(bool(bench.backend.supported_ops), "no operation is supported")


_REQUIRED: Final = {"memory": "require_memory", "resident_executor": "require_resident_executor"}


@REGISTRATION.table(_REQUIRED)
def a_missing_facet_is_unsupported(bench: Bench, method: str) -> None:
    """Requiring a facet that is None raises ``UnsupportedFeature``, which names the backend."""
    facet = {method: name for name, method in _REQUIRED.items()}[method]
    without: dict[str, Any] = {facet: None}
    bare: Backend = replace(bench.backend, **without)
    equal(refusal(UnsupportedFeature, getattr(bare, method)).backend, str(bench.backend.id))


@REGISTRATION.case("memory")
def its_buffers_are_its_own(bench: Bench) -> None:
    """Buffers carry the backend's id and epoch, so that others can refuse them."""
    check_ownership(bench.backend.id, bench.backend.lifecycle.epoch, (bench.allocate(4),))


@REGISTRATION.case()
def facets_that_run_programs_come_with_memory(bench: Bench) -> None:
    """A backend with launches on device memory has device memory."""
    if any(getattr(bench.backend, name) is not None for name in ("resident_executor", "resident_binder")):
        holds(bench.backend.memory is not None, "there is a resident executor, but no memory")


# ---------------------------------------------------------------- the profile
_MARK: Final = """
    workgroup_size {}, {}, {}
    buffer y @0 read_write u32[3]
    body {{
      let a = atomic_add(y, 0u, 1u)
      let b = atomic_max(y, 1u, gid.x + gid.y + gid.z)
      let c = atomic_max(y, 2u, wid.x)
    }}
    """
_COUNT: Final = """
    workgroup_size {}, {}, {}
    buffer y @0 read_write u32[1]
    body {{ let a = atomic_add(y, 0u, 1u) }}
    """
_UNBOUNDED: Final = 1 << 16
"""Limits from here on are too large for a test to reach."""
_MOST_BYTES: Final = 1 << 28
"""Buffers of more bytes are too large for a test."""


@PROFILE.case()
def unknown_is_none(bench: Bench) -> None:
    """Sizes and limits that are not known are None, never 0."""
    for field in fields(DeviceProfile):
        value = getattr(bench.backend.profile, field.name)
        if type(value) is int:
            holds(value > 0, f"{field.name} is {value}")
        if isinstance(value, tuple):
            holds(len(value) == 3 and min(value) > 0, f"{field.name} is {value}")


@PROFILE.case()
def a_subgroup_has_32_lanes(bench: Bench) -> None:
    """The language's subgroups have 32 lanes; a profile states 32 or nothing."""
    holds(bench.backend.profile.subgroup_size in (None, 32), f"it is {bench.backend.profile.subgroup_size}")


class _Limit(NamedTuple):
    """A limit of the profile: its field, and its axis if it has axes."""

    field: str
    axis: int | None = None


def _limit(bench: Bench, limit: _Limit, bound: int = 0xFFFF_FFFF) -> int:
    """Returns the limit; skips the case where it is not told, or ``bound`` or more."""
    value = getattr(bench.backend.profile, limit.field)
    if value is None:
        raise Skipped(f"`{bench.backend.id}` does not tell {limit.field}")
    most = int(value if limit.axis is None else value[limit.axis])
    if most >= bound:
        raise Skipped(f"`{bench.backend.id}` has no limit {limit.field} that a test can reach")
    return most


_AXES: Final = {f"workgroup_{axis}": _Limit("max_workgroup_size", k) for k, axis in enumerate("xyz")}
_GRIDS: Final = {f"grid_{axis}": _Limit("max_grid_size", k) for k, axis in enumerate("xyz")}


def _shape(axis: int | None, size: int) -> tuple[int, int, int]:
    x, y, z = (size if k == axis else 1 for k in range(3))
    return x, y, z


@PROFILE.table(_AXES)
def the_largest_workgroup_runs(bench: Bench, limit: _Limit) -> None:
    """A workgroup at the limit of an axis runs, as far as the limit of all lanes allows."""
    together = _limit(bench, _Limit("max_invocations_per_workgroup"), _UNBOUNDED)
    size = min(_limit(bench, limit), together)
    kernel = _COUNT.format(*_shape(limit.axis, size))
    equal(lacks(bench, kernel), [], "what is missing")
    equal(bench.words(kernel, words(0), grid=(1, 1, 1)), [size], "the lanes that ran")


@PROFILE.table(_AXES)
def a_larger_workgroup_is_refused(bench: Bench, limit: _Limit) -> None:
    """One lane more than the limit of an axis is refused; the message has the limit."""
    most = _limit(bench, limit)
    for config in ({}, {"workgroup": _shape(limit.axis, most + 1)}):
        size = _shape(limit.axis, 1 if config else most + 1)
        holds(limit.field in lacks(bench, _MARK.format(*size), **config), f"{limit.field} is not said to be missing")
        error = bench.refuses(DeviceLimitExceeded, _MARK.format(*size), words(0, 0, 0), grid=(1, 1, 1), **config)
        holds(str(bench.backend.id) in error.message, f"the backend is not named: {error}")


@PROFILE.case()
def too_many_lanes_together_are_refused(bench: Bench) -> None:
    """A workgroup within the limit of every axis, but with too many lanes, is refused."""
    most = _limit(bench, _Limit("max_invocations_per_workgroup"))
    axes = bench.backend.profile.max_workgroup_size or (most, most, most)
    x = min(axes[0], most)
    y = min(axes[1], most // x + 1)
    if x * y <= most:
        raise Skipped(f"`{bench.backend.id}` has no two axes that exceed it")
    equal(lacks(bench, _MARK.format(x, y, 1)), ["max_invocations_per_workgroup"], "what is missing")
    bench.refuses(DeviceLimitExceeded, _MARK.format(1, 1, 1), words(0, 0, 0), grid=(1, 1, 1), workgroup=(x, y, 1))
    equal(bench.words(INCREMENT, words(1)), [2])


@PROFILE.table(_GRIDS)
def the_largest_grid_runs(bench: Bench, limit: _Limit) -> None:
    """As many workgroups as the limit of an axis run."""
    most = _limit(bench, limit, _UNBOUNDED)
    grid = _shape(limit.axis, most)
    equal(lacks(bench, _MARK.format(1, 1, 1), grid=grid), [], "what is missing")
    equal(bench.words(_MARK.format(1, 1, 1), words(0, 0, 0), grid=grid)[0], most, "the workgroups that ran")


@PROFILE.table(_GRIDS)
def a_larger_grid_is_refused(bench: Bench, limit: _Limit) -> None:
    """One workgroup more than the limit of an axis is refused."""
    most = _limit(bench, limit)
    grid = _shape(limit.axis, most + 1)
    equal(lacks(bench, _MARK.format(1, 1, 1), grid=grid)[:1], ["max_grid_size"], "what is missing first")
    error = bench.refuses(DeviceLimitExceeded, _MARK.format(1, 1, 1), words(0, 0, 0), grid=grid)
    holds(str(most) in error.message, f"the limit is not named: {error}")


def _with_workgroup_memory(nbytes: int) -> str:
    return f"""
    workgroup_size 32, 1, 1
    buffer y @0 write u32[2]
    buffer shared @- workgroup u8[{nbytes}]
    body {{
      if lid.x < 2u {{ shared[lid.x * {nbytes - 1}u] = lid.x + 7u }}
      barrier(seq_cst)
      if lid.x < 2u {{ y[lid.x] = shared[(1u - lid.x) * {nbytes - 1}u] }}
    }}
    """


@PROFILE.table({"16_kib": 1 << 14, "48_kib": 48 << 10, "the_limit": 0})
def workgroup_memory_up_to_the_limit(bench: Bench, nbytes: int) -> None:
    """A program may use as much workgroup memory as the profile states."""
    bench.need("has_shared_memory")
    most = bench.backend.profile.max_shared_memory_bytes
    if nbytes == 0 and most is None:
        raise Skipped(f"`{bench.backend.id}` does not tell max_shared_memory_bytes")
    size = nbytes or int(most or 0)
    if most is not None and size > most:
        raise Skipped(f"`{bench.backend.id}` has {most} bytes of workgroup memory")
    equal(lacks(bench, _with_workgroup_memory(size)), [], "what is missing")
    equal(bench.words(_with_workgroup_memory(size), grid=(1, 1, 1)), [8, 7])


@PROFILE.case()
def more_workgroup_memory_is_refused(bench: Bench) -> None:
    """A program that needs more than the limit is refused by a typed error, and the next one runs."""
    most = _limit(bench, _Limit("max_shared_memory_bytes"))
    for size in (most + 1, 0xFFFF_FFFF):
        equal(lacks(bench, _with_workgroup_memory(size)), ["max_shared_memory_bytes"], "what is missing")
        bench.refuses(DeviceLimitExceeded, _with_workgroup_memory(size), grid=(1, 1, 1))
    equal(bench.words(INCREMENT, words(1)), [2])


@PROFILE.table({"the_limit": 0, "one_more": 1})
def storage_buffers_up_to_the_limit(bench: Bench, more: int) -> None:
    """A buffer may be as large as the profile states, and no larger."""
    most = _limit(bench, _Limit("max_storage_buffer_bytes"))
    element = u64 if u64 in bench.backend.profile.element_types else u32
    count = most // element.size + more
    if count > 0xFFFF_FFFF or (more == 0 and most > _MOST_BYTES):
        raise Skipped(f"`{bench.backend.id}` has no limit that a program can reach")
    buffer = f"buffer y @0 write {element.text}[{count}] range 0..8"
    kernel = f"workgroup_size 1, 1, 1 {buffer} body {{ y[0u] = {'7u64' if element is u64 else '7u'} }}"
    equal(lacks(bench, kernel), ["max_storage_buffer_bytes"] * more, "what is missing")
    if more:
        bench.refuses(DeviceLimitExceeded, kernel, grid=(1, 1, 1))
    else:
        equal(bench.words(kernel, grid=(1, 1, 1)), [7, 0])


@PROFILE.case("compiler")
def a_compilation_is_refused_as_a_dispatch_is(bench: Bench) -> None:
    """A program above a limit is refused when it is compiled, and not when it is run."""
    profile = bench.backend.profile
    if profile.max_shared_memory_bytes is not None:
        kernel = _with_workgroup_memory(profile.max_shared_memory_bytes + 1)
        refusal(DeviceLimitExceeded, partial(bench.compile, kernel))
    if profile.max_invocations_per_workgroup is not None:
        kernel = _MARK.format(profile.max_invocations_per_workgroup + 1, 1, 1)
        refusal(DeviceLimitExceeded, partial(bench.compile, kernel))


@PROFILE.case()
def a_folded_grid_has_a_limit_in_all(bench: Bench) -> None:
    """A grid with an axis that is longer than a launch may have is refused where it has too many workgroups in all."""
    unfolded, most = bench.backend.profile.max_unfolded_grid, _limit(bench, _GRIDS["grid_x"])
    if unfolded is None or unfolded[1] >= most:
        raise Skipped(f"`{bench.backend.id}` folds no grid")
    grid = (1, unfolded[1] + 1, most // (unfolded[1] + 1) + 1)
    equal(lacks(bench, _MARK.format(1, 1, 1), grid=grid), ["max_unfolded_grid"], "what is missing")
    bench.refuses(DeviceLimitExceeded, _MARK.format(1, 1, 1), words(0, 0, 0), grid=grid)


# ---------------------------------------------------------------- clocks
@PROFILE.case()
def times_are_as_good_as_claimed(bench: Bench) -> None:
    """A backend with device timestamps reports the device's time of every dispatch; no time is negative."""
    profile = bench.backend.profile
    timing = bench.execute(Storage(), INCREMENT, words(*range(100)))
    parts = (timing.wall_ns, timing.device_ns, timing.enqueue_ns, timing.wait_ns)
    holds(all(part is None or part >= 0 for part in parts), f"a time is negative: {timing}")
    if profile.timing_quality is TimingQuality.HOST_ENQUEUE_WAIT:
        holds(None not in (timing.enqueue_ns, timing.wait_ns), f"{profile.timing_quality} is claimed, not {timing}")
    if profile.supports_device_timestamps:
        holds(timing.device_ns is not None, "device timestamps are claimed, but there is no device time")
        holds(profile.timing_quality >= TimingQuality.DEVICE_TIMESTAMPS, f"{profile.timing_quality} is claimed")
    else:
        holds(profile.timing_quality < TimingQuality.DEVICE_TIMESTAMPS, f"{profile.timing_quality} is claimed")


@PROFILE.case()
def hardware_counters_are_claimed_together(bench: Bench) -> None:
    """The best timing quality is claimed together with the flag for it."""
    profile = bench.backend.profile
    equal(profile.supports_hardware_counters, profile.timing_quality is TimingQuality.HARDWARE_COUNTERS)
