"""The profile of a backend's device: limits, features, and the quality of its clocks; and kinds of engines."""

from __future__ import annotations

from dataclasses import field, fields
from enum import Enum
from typing import TypeAlias

from vyre.domain.dispatch import TimingQuality
from vyre.domain.frozen import frozen
from vyre.domain.geometry import LaunchLimits
from vyre.domain.ir.operators import OperatorAt, operators_at
from vyre.domain.ir.types import USUAL_TYPES, ScalarType
from vyre.domain.names import BackendId, Dim3

OptionalDim3: TypeAlias = Dim3 | None


class EngineKind(Enum):
    """What runs a program: ``INTERPRETER``, NumPy statement by statement; ``NATIVE`` and ``DEVICE``, a compiler's code.

    The code of ``NATIVE`` is made by LLVM, that of ``DEVICE`` by the assembler of a GPU.
    """

    INTERPRETER = "interpreter"
    NATIVE = "native"
    DEVICE = "device"


@frozen(kw_only=True)
class DeviceProfile:
    """Facts about a device as one backend uses it.

    A feature flag that is True promises both that the device has the feature and that this backend's own code uses
    it; every such claim has a probe in the test suite.  A numeric fact of None is *unknown*, never "unlimited".  The
    defaults claim no feature.

    ``element_types`` are the types of buffers and values, u32 and bool among them; by default all but the 16-bit
    floats.  ``operators`` are those that run on such operands; by default all of the language.  A case of the contract
    that needs another one is skipped, and a program refused.

    Sizes are in bytes, ``mem_bw_gbps`` is in 10^9 bytes per second, and ``max_grid_size`` counts workgroups per axis; a
    grid with an axis longer than in ``max_unfolded_grid`` has at most ``max_grid_size[0]`` in all.
    ``max_shared_memory_bytes`` limits the workgroup buffers of a program, each rounded up to 16 bytes.
    ``supports_f16`` and ``supports_bf16`` say that the code computes in these types natively,
    ``supports_speculation`` and ``supports_persistent_threads`` that a session can speculate and keep programs running;
    a dispatch by itself can neither.
    """

    backend: BackendId
    # What programs may be made of.
    element_types: frozenset[ScalarType] = USUAL_TYPES
    operators: frozenset[OperatorAt] = field(default_factory=operators_at)
    # Features of the program language.
    supports_subgroup_ops: bool = False
    supports_indirect_dispatch: bool = False
    supports_distributed_collectives: bool = False
    supports_specialization_constants: bool = False
    supports_f16: bool = False
    supports_bf16: bool = False
    supports_trap_propagation: bool = False
    supports_tensor_cores: bool = False
    supports_grid_sync: bool = False
    allows_host_grid_sync_split: bool = False
    # Features of the launch.
    supports_async_compute: bool = False
    supports_speculation: bool = False
    supports_persistent_threads: bool = False
    is_distributed: bool = False
    # Features of the hardware that planners look at.
    has_dual_issue_fp32_int32: bool = False
    has_subgroup_shuffle: bool = False
    has_shared_memory: bool = False
    # Clocks.
    timing_quality: TimingQuality = TimingQuality.HOST_ONLY
    supports_device_timestamps: bool = False
    supports_hardware_counters: bool = False
    # Limits and sizes.
    max_native_int_width: int = 32
    max_workgroup_size: OptionalDim3 = None
    max_invocations_per_workgroup: int | None = None
    max_grid_size: OptionalDim3 = None
    max_unfolded_grid: OptionalDim3 = None
    max_shared_memory_bytes: int | None = None
    max_storage_buffer_bytes: int | None = None
    subgroup_size: int | None = None
    compute_units: int | None = None
    regs_per_thread_max: int | None = None
    l1_cache_bytes: int | None = None
    l2_cache_bytes: int | None = None
    mem_bw_gbps: int | None = None
    shared_memory_bank_count: int | None = None
    shared_memory_bank_width_bytes: int | None = None
    ideal_unroll_depth: int | None = None
    ideal_vector_pack_bits: int | None = None
    ideal_workgroup_tile: OptionalDim3 = None

    def launch_limits(self) -> LaunchLimits:
        """Returns the limits of programs and launches."""
        return LaunchLimits._make([str(self.backend), *[getattr(self, name) for name in LaunchLimits._fields[1:]]])


def claimed_features(profile: DeviceProfile) -> frozenset[str]:
    """Returns the names of the feature flags that ``profile`` sets; the tests own one probe for each."""
    return frozenset(f.name for f in fields(profile) if getattr(profile, f.name) is True)
