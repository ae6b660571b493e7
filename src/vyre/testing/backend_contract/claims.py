"""Cases of what a backend claims: every flag of its profile and every operation that it lists is used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from vyre.domain.device import claimed_features
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import BackendError, TrapError
from vyre.domain.missing import LANGUAGE_FLAGS, missing_from
from vyre.domain.op_ids import ALL_OPS, INDIRECT_DISPATCH
from vyre.testing.backend_contract.bench import (
    INCREMENT,
    TRAP,
    Bench,
    Kernel,
    Skipped,
    equal,
    holds,
    mapped,
    program_of,
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


def _narrow(element: str, value: str = "x[gid.x] + x[1u - gid.x]") -> str:
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
    # 1 + 2^-11 lies in the middle of two f16, and 1 + 2^-8 of two bf16: the even one is stored
    "stores_f16": _Probe(_narrow("f16"), (0x1000_3C00,), (0x3C00_3C00,)),
    "stores_bf16": _Probe(_narrow("bf16"), (0x3B80_3F80,), (0x3F80_3F80,)),
    # (1 + 3e) (1 + 3e) - 1, with e of 2^-10 or 2^-7, of a product that is rounded; and NaN
    "supports_f16": _Probe(_narrow("f16", "narrow<f16>(x[gid.x] * x[gid.x]) - 1f"), (0x7C01_3C03,), (0x7E00_1E00,)),
    "supports_bf16": _Probe(_narrow("bf16", "narrow<bf16>(x[gid.x] * x[gid.x]) - 1f"), (0x7F81_3F83,), (0x7FC0_3D40,)),
    "supports_trap_propagation": _Probe(TRAP, (1, 2, 3), (2, 3, 4)),
    "supports_grid_sync": _across(4),
    "allows_host_grid_sync_split": _across(_MANY),
    "has_mul_high": _Probe(mapped("y[i] = mulhi(x[i], 6u)"), (1 << 31, 7), (3, 0)),
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


# ---------------------------------------------------------------- operations
_VALUES: Final = """
    workgroup_size 4, 1, 1
    buffer x @0 read u32[4]
    buffer y @1 write u32[4]
    body {
      let i = gid.x
      let wide = select(true, cast<u64>(x[i]) + 5u64, 0u64)
      let near = narrow<u8>(cast<u32>(wide + bitcast<u64>(-1i64 + 1i64)))
      let real = fma(cast<f32>(near), 2.0f, 1.0f)
      let whole = wrap_cast<u32>(real) + cast<u32>(cast<f64>(real) - 1.0f64) + cast<u32>(popcount(pack<u16>(len(x))))
      y[i] = whole + unpack<u8>(256u) + cast<u32>(0i) + spec(more, 1u)
    }
    """
_FLOW: Final = """
    workgroup_size 4, 1, 1
    buffer x @0 read u32[4]
    buffer y @1 write u32[4]
    body {
      let i = gid.x
      let sum = 0u
      for k in 0u..9u {
        if k == 2u { continue }
        if k == 5u { break }
        sum := sum + k
      }
      switch x[i] { case 1u { sum := sum + 100u } else { sum := sum + 200u } }
      block { let one = 1u sum := sum + one }
      region "mark" { sum := sum + 1u }
      if sum == 0u { trap(i, "none") }
      y[i] = sum
      return
    }
    """
_TOGETHER: Final = """
    workgroup_size 4, 1, 1
    buffer x @0 read u32[4]
    buffer y @1 write u32[4]
    buffer shared @- workgroup u32[4]
    buffer back @- workgroup u32[4]
    body {
      async_load(x, shared, 0u, 16u, "in")
      async_wait("in")
      barrier(seq_cst)
      let old = atomic_add(shared, lid.x, 1u)
      barrier(seq_cst)
      back[lid.x] = shared[lid.x] + old
      barrier(seq_cst)
      async_store(back, y, 0u, 16u, "out")
      async_wait("out")
    }
    """
_EXCHANGED: Final = """
    workgroup_size 4, 1, 1
    buffer x @0 read u32[4]
    buffer y @1 write u32[4]
    body {
      let found = subgroup_ballot(x[gid.x] > 1u) + subgroup_add(1u) + subgroup_lane() + subgroup_size()
      y[gid.x] = subgroup_shuffle(found, 3u - lid.x)
    }
    """
_ROUNDS: Final = """
    workgroup_size 1, 1, 1
    buffer x @0 read_write u32[4]
    buffer flag @1 read_write u32[1] output
    body {
      let round = grid_loop(9u, flag) {
        x[gid.x] = x[gid.x] + 1u
        if x[gid.x] < 5u { flag[0u] = 1u }
      }
    }
    """
_INDIRECT: Final = "workgroup_size 4, 1, 1 buffer x @0 read_write u32[4] body { indirect_dispatch(x, 0) }"
OPERATIONS: Final = {
    "values": _Probe(_VALUES, (1, 2, 3, 4), tuple(4 * (x + 5) + 3 for x in (1, 2, 3, 4))),
    "flow": _Probe(_FLOW, (1, 2, 1, 2), (110, 210, 110, 210)),
    "together": _Probe(_TOGETHER, (1, 2, 3, 4), (3, 5, 7, 9)),
    "exchanged": _Probe(_EXCHANGED, (1, 2, 3, 4), (53, 52, 51, 50)),
    "rounds": _Probe(_ROUNDS, (1, 2, 3, 4), (5, 6, 7, 8)),
    "indirect": _Probe(_INDIRECT, (1, 1, 1, 0), (1, 1, 1, 0)),
}


@CLAIMS.table(OPERATIONS)
def listed_operations_run(bench: Bench, probe: _Probe) -> None:
    """A program of operations that the backend lists runs; for any other ``missing`` names them."""
    missing = set(lacks(bench, probe.kernel))
    if missing:
        unlisted, unclaimed = missing & ALL_OPS, missing - ALL_OPS
        equal(unlisted & bench.backend.supported_ops, set(), "operations that are listed, and missing")
        raise Skipped(f"`{bench.backend.id}` lacks {', '.join(sorted(unlisted | unclaimed))}")
    lanes = program_of(probe.kernel).workgroup_size[0]
    equal(bench.run(probe.kernel, words(*probe.operands), grid=(4 // lanes, 1, 1))[0], words(*probe.wanted))
