"""The two reference backends: ``reference`` (vectorised) and ``reference-scalar`` (the oracle)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from vyre.domain.device import DeviceProfile, EngineKind
from vyre.domain.dispatch import U32_MAX, TimingQuality
from vyre.domain.ir.types import ScalarType
from vyre.domain.names import BackendId
from vyre.ports.backend import Backend, BackendRegistration, BackendRole, BackendServices

if TYPE_CHECKING:
    from vyre.adapters.reference.engine import Engine

_VERSION: Final = "1"
MAX_LANES: Final = 1 << 15
"""The lanes of a workgroup that are run together, and whose values are kept at once."""


def _profile(backend: BackendId) -> DeviceProfile:
    return DeviceProfile(
        backend=backend,
        supports_subgroup_ops=True,
        supports_specialization_constants=True,
        element_types=frozenset(ScalarType),
        supports_trap_propagation=True,
        supports_grid_sync=True,
        allows_host_grid_sync_split=True,
        supports_speculation=True,
        has_subgroup_shuffle=True,
        has_shared_memory=True,
        max_native_int_width=64,
        max_workgroup_size=(MAX_LANES, MAX_LANES, MAX_LANES),
        max_invocations_per_workgroup=MAX_LANES,
        max_grid_size=(U32_MAX, U32_MAX, U32_MAX),
        subgroup_size=32,
        timing_quality=TimingQuality.HOST_ONLY,
    )


def _vector_engine() -> Engine:
    from vyre.adapters.reference.vector.engine import VectorKernel

    return VectorKernel


def _scalar_engine() -> Engine:
    from vyre.adapters.reference.scalar_oracle import ScalarKernel

    return ScalarKernel


def _make(backend: BackendId, engine: Callable[[], Engine], optimizes: bool, services: BackendServices) -> Backend:
    from vyre.adapters.reference.cost_probe import HostCostProbe
    from vyre.adapters.reference.executor import Optimizing, ReferenceExecutor
    from vyre.adapters.reference.memory import ReferenceMemory
    from vyre.ports.lifecycle import NullLifecycle

    optimizing = Optimizing(services.optimize, services.decisions, services.device_passes) if optimizes else None
    limits = _profile(backend).launch_limits()
    executor = ReferenceExecutor(limits, engine(), services.decisions, optimizing, services.now_ns)
    memory = ReferenceMemory(backend, executor)
    return Backend(
        id=backend,
        version=_VERSION,
        profile=_profile(backend),
        executor=executor,
        compiler=executor,
        memory=memory,
        foreign_memory=memory,
        resident_executor=memory,
        loops=memory,
        lifecycle=NullLifecycle(backend),
        cost_probe=HostCostProbe(backend, executor, services.now_ns),
        optimizes=EngineKind.INTERPRETER if optimizes else None,
        toolchain=_toolchain,
    )


def _toolchain() -> str:
    from vyre.adapters.source_digest import REFERENCE as SOURCES
    from vyre.adapters.source_digest import emitter_digest

    return f"version {_VERSION}, source {emitter_digest(SOURCES).hex()[:16]}"


def _registration(name: str, rank: int, engine: Callable[[], Engine], *, optimizes: bool) -> BackendRegistration:
    backend = BackendId(name)
    return BackendRegistration(
        id=backend,
        rank=rank,
        role=BackendRole.REFERENCE,
        factory=partial(_make, backend, engine, optimizes),
        probe=partial(_profile, backend),
        toolchain=_toolchain,
    )


REFERENCE: Final = _registration("reference", 900, _vector_engine, optimizes=True)
REFERENCE_SCALAR: Final = _registration("reference-scalar", 910, _scalar_engine, optimizes=False)
