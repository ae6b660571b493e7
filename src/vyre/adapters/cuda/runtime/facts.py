"""Facts about a device: probed once, frozen, and turned into the profile that the port shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vyre.adapters.cuda.codes import Attribute
from vyre.adapters.cuda.decisions.ptx_target import BASE_VERSIONS, HALF_FROM, TargetInputs, check_driver, select_target
from vyre.adapters.cuda.seam import CudaDriver
from vyre.domain.device import DeviceProfile
from vyre.domain.dispatch import TimingQuality
from vyre.domain.errors import BackendUnavailable
from vyre.domain.frozen import frozen
from vyre.domain.ir.types import ScalarType
from vyre.domain.names import BackendId, Dim3
from vyre.policies.launching.grid_sync_mode import GridSyncMode

if TYPE_CHECKING:
    from vyre.policies.devices.occupancy import DeviceEnvelope

REGISTERS_OF_A_THREAD: Final = 255
LARGE_PARAMETERS: Final = 32_764
PORTABLE_PARAMETERS: Final = 4096


@frozen(kw_only=True)
class CudaDeviceFacts:
    """Attributes of a device, with sizes in bytes.

    ``memory_clock_khz`` and ``bus_bits`` are 0 where the driver does not report them.  ``devices`` is the number of
    devices that the process sees.  ``driver_version`` is ``1000 * major + 10 * minor``; ``target`` is the number of the
    device's sm.  ``limits_kernels`` says that the driver ends kernels that take long, as where a display is attached.
    """

    ordinal: int
    devices: int
    name: str
    uuid: bytes
    driver_version: int
    target: int
    total_memory: int
    max_threads_per_block: int
    max_block: Dim3
    max_grid: Dim3
    warp_size: int
    multiprocessors: int
    threads_per_multiprocessor: int
    registers_per_block: int
    shared_per_block: int
    shared_per_block_optin: int
    l2_bytes: int
    memory_clock_khz: int
    bus_bits: int
    cooperative_launch: bool
    memory_pools: bool
    integrated: bool
    limits_kernels: bool

    @property
    def bandwidth_gbps(self) -> int | None:
        """Returns the peak bandwidth of the memory bus (two transfers per clock) in 10^9 bytes per second; None if
        unknown.
        """
        return max(1, self.memory_clock_khz * self.bus_bits // 4_000_000) if self.memory_clock_khz else None

    @property
    def folded_grid(self) -> Dim3:
        """Returns the most workgroups along each axis of a grid that may be folded along x."""
        return (self.max_grid[0],) * 3

    @property
    def max_shared(self) -> int:
        """Returns the most bytes of shared memory that a block may have."""
        return max(self.shared_per_block, self.shared_per_block_optin)

    @property
    def parameter_limit(self) -> int:
        """Returns the bytes of kernel parameters that a launch may have.

        More than 4096 need sm_70 and a driver of CUDA 12.1.
        """
        return LARGE_PARAMETERS if self.driver_version >= 12_010 else PORTABLE_PARAMETERS

    @property
    def envelope(self) -> DeviceEnvelope:
        """Returns the limits of one launch on this device."""
        from vyre.policies.devices.occupancy import AxisLimits, DeviceEnvelope  # looking for a device needs none of it

        return DeviceEnvelope(
            self.max_threads_per_block,
            self.max_shared,
            self.cooperative_launch,
            AxisLimits(self.max_block, self.max_grid, self.registers_per_block),
        )


def probe_facts(driver: CudaDriver, ordinal: int) -> CudaDeviceFacts:
    """Queries an initialised driver for the facts of a device.

    Raises ``CudaCallError``, and ``BackendUnavailable`` for a device that is too old or reports limits that no launch
    can meet.
    """
    devices = driver.device_count()
    if not 0 <= ordinal < devices:
        raise BackendUnavailable(
            f"CUDA device {ordinal} does not exist; {devices} are visible", fix="choose an ordinal that exists."
        )

    def ask(attribute: Attribute) -> int:
        return driver.device_attribute(ordinal, int(attribute))

    facts = CudaDeviceFacts(
        ordinal=ordinal,
        devices=devices,
        name=driver.device_name(ordinal),
        uuid=driver.device_uuid(ordinal),
        driver_version=driver.driver_version(),
        target=10 * ask(Attribute.COMPUTE_CAPABILITY_MAJOR) + ask(Attribute.COMPUTE_CAPABILITY_MINOR),
        total_memory=driver.device_memory(ordinal),
        max_threads_per_block=ask(Attribute.MAX_THREADS_PER_BLOCK),
        max_block=(ask(Attribute.MAX_BLOCK_DIM_X), ask(Attribute.MAX_BLOCK_DIM_Y), ask(Attribute.MAX_BLOCK_DIM_Z)),
        max_grid=(ask(Attribute.MAX_GRID_DIM_X), ask(Attribute.MAX_GRID_DIM_Y), ask(Attribute.MAX_GRID_DIM_Z)),
        warp_size=ask(Attribute.WARP_SIZE),
        multiprocessors=ask(Attribute.MULTIPROCESSOR_COUNT),
        threads_per_multiprocessor=ask(Attribute.MAX_THREADS_PER_MULTIPROCESSOR),
        registers_per_block=ask(Attribute.MAX_REGISTERS_PER_BLOCK),
        shared_per_block=ask(Attribute.MAX_SHARED_MEMORY_PER_BLOCK),
        shared_per_block_optin=ask(Attribute.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
        l2_bytes=ask(Attribute.L2_CACHE_SIZE),
        memory_clock_khz=ask(Attribute.MEMORY_CLOCK_RATE),
        bus_bits=ask(Attribute.GLOBAL_MEMORY_BUS_WIDTH),
        cooperative_launch=bool(ask(Attribute.COOPERATIVE_LAUNCH)),
        memory_pools=bool(ask(Attribute.MEMORY_POOLS_SUPPORTED)),
        integrated=bool(ask(Attribute.INTEGRATED)),
        limits_kernels=bool(ask(Attribute.KERNEL_EXEC_TIMEOUT)),
    )
    _check(facts)
    return facts


def _check(facts: CudaDeviceFacts) -> None:
    needed = (
        facts.max_threads_per_block,
        *facts.max_block,
        *facts.max_grid,
        facts.multiprocessors,
        facts.registers_per_block,
        facts.shared_per_block,
    )
    if min(needed) < 1 or facts.warp_size != 32:
        raise BackendUnavailable(
            f"{facts.name} reports limits that no launch can meet: {facts}", fix="update the NVIDIA driver."
        )
    oldest = min(BASE_VERSIONS)
    if facts.target < oldest:
        raise BackendUnavailable(
            f"{facts.name} is an sm_{facts.target} device; the oldest supported one is sm_{oldest}",
            fix="use a newer device, or ask for `reference`.",
        )
    check_driver(select_target(TargetInputs(facts.target)), facts.driver_version)


def profile_of(facts: CudaDeviceFacts, backend: BackendId, grid_sync: GridSyncMode | None) -> DeviceProfile:
    """Returns the profile of the backend on this device; ``grid_sync`` may turn native grid barriers off.

    A driver that limits the time of kernels keeps none.
    """
    return DeviceProfile(
        backend=backend,
        supports_subgroup_ops=True,
        supports_specialization_constants=True,
        element_types=frozenset(ScalarType),
        supports_f16=facts.target >= HALF_FROM[ScalarType.F16],
        supports_bf16=facts.target >= HALF_FROM[ScalarType.BF16],
        supports_trap_propagation=True,
        supports_grid_sync=grid_sync is not GridSyncMode.SPLIT and facts.cooperative_launch,
        allows_host_grid_sync_split=True,
        supports_async_compute=True,
        supports_speculation=True,
        supports_persistent_threads=not facts.limits_kernels,
        has_subgroup_shuffle=True,
        has_shared_memory=True,
        timing_quality=TimingQuality.DEVICE_TIMESTAMPS,
        supports_device_timestamps=True,
        max_native_int_width=64,
        max_workgroup_size=facts.max_block,
        max_invocations_per_workgroup=facts.max_threads_per_block,
        max_grid_size=facts.folded_grid,
        max_unfolded_grid=facts.max_grid,
        max_shared_memory_bytes=facts.max_shared,
        max_storage_buffer_bytes=facts.total_memory,
        subgroup_size=facts.warp_size,
        compute_units=facts.multiprocessors,
        regs_per_thread_max=min(REGISTERS_OF_A_THREAD, facts.registers_per_block),
        l2_cache_bytes=facts.l2_bytes or None,
        mem_bw_gbps=facts.bandwidth_gbps,
        shared_memory_bank_count=32,
        shared_memory_bank_width_bytes=4,
    )
