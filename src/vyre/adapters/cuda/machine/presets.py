"""Devices that the machine can emulate.

Limits and sizes are the published ones of each architecture.  Speeds are rounded figures near the data sheets: virtual
times have the right order of magnitude and overlap as they should, but nothing here was measured, and no time is a
prediction.
"""

from __future__ import annotations

from typing import Final

from vyre.adapters.cuda.codes import Attribute
from vyre.domain.frozen import frozen
from vyre.domain.names import Dim3
from vyre.policies.devices.occupancy import SmModel

STATIC_SHARED_LIMIT: Final = 48 * 1024
REGISTERS: Final = 65_536
_GIB: Final = 2**30


@frozen(kw_only=True)
class Speed:
    """Constants of virtual time: nanoseconds, and bytes and lane instructions per nanosecond."""

    call_ns: int = 1_000
    copy_latency_ns: int = 4_000
    link_bytes: float = 25.0
    kernel_latency_ns: int = 3_000
    memory_bytes: float
    lane_instructions: float

    def copy(self, nbytes: int, *, over_link: bool) -> int:
        """Returns the time of a copy in ns, over the host link or within the device."""
        return self.copy_latency_ns + int(nbytes / (self.link_bytes if over_link else self.memory_bytes))

    def kernel(self, lane_instructions: int) -> int:
        """Returns the time of a kernel in ns."""
        return self.kernel_latency_ns + int(lane_instructions / self.lane_instructions)


@frozen(kw_only=True)
class DevicePreset:
    """One device.  Sizes are in bytes, clocks in kHz; ``capability`` is (major, minor).

    ``shared_per_block`` is the shared memory that a block may use by default, ``sm.shared_bytes_per_block`` the most
    that a kernel can opt in to.  ``memory`` is the device's own
    memory.  ``limits_kernels`` says that the driver ends kernels that take long.
    """

    name: str
    capability: tuple[int, int]
    multiprocessors: int
    sm: SmModel
    memory: int
    speed: Speed
    l2_bytes: int
    memory_clock_khz: int
    memory_bus_bits: int
    max_threads_per_block: int = 1024
    max_block: Dim3 = (1024, 1024, 64)
    max_grid: Dim3 = (2**31 - 1, 65_535, 65_535)
    shared_per_block: int = STATIC_SHARED_LIMIT
    cooperative: bool = True
    memory_pools: bool = True
    limits_kernels: bool = False

    @property
    def target(self) -> int:
        """Returns the number of its sm: 90 for sm_90."""
        return 10 * self.capability[0] + self.capability[1]

    @property
    def uuid(self) -> bytes:
        """Returns 16 bytes that identify the emulated device."""
        return f"vyre-machine-{self.target:03d}".encode()

    def attributes(self) -> dict[int, int]:
        """Returns the device's attributes by the driver's number."""
        a = Attribute
        return {
            a.MAX_THREADS_PER_BLOCK: self.max_threads_per_block,
            a.MAX_BLOCK_DIM_X: self.max_block[0],
            a.MAX_BLOCK_DIM_Y: self.max_block[1],
            a.MAX_BLOCK_DIM_Z: self.max_block[2],
            a.MAX_GRID_DIM_X: self.max_grid[0],
            a.MAX_GRID_DIM_Y: self.max_grid[1],
            a.MAX_GRID_DIM_Z: self.max_grid[2],
            a.MAX_SHARED_MEMORY_PER_BLOCK: self.shared_per_block,
            a.WARP_SIZE: 32,
            a.MAX_REGISTERS_PER_BLOCK: REGISTERS,
            a.MULTIPROCESSOR_COUNT: self.multiprocessors,
            a.KERNEL_EXEC_TIMEOUT: int(self.limits_kernels),
            a.INTEGRATED: 0,
            a.MEMORY_CLOCK_RATE: self.memory_clock_khz,
            a.GLOBAL_MEMORY_BUS_WIDTH: self.memory_bus_bits,
            a.L2_CACHE_SIZE: self.l2_bytes,
            a.MAX_THREADS_PER_MULTIPROCESSOR: self.sm.threads,
            a.COMPUTE_CAPABILITY_MAJOR: self.capability[0],
            a.COMPUTE_CAPABILITY_MINOR: self.capability[1],
            a.COOPERATIVE_LAUNCH: int(self.cooperative),
            a.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: self.sm.shared_bytes_per_block,
            a.MAX_BLOCKS_PER_MULTIPROCESSOR: self.sm.blocks,
            a.MEMORY_POOLS_SUPPORTED: int(self.memory_pools),
        }


T4: Final = DevicePreset(
    name="Emulated T4",
    capability=(7, 5),
    multiprocessors=40,
    sm=SmModel(1024, 16, 65_536, 65_536, 1, reserved_shared=0),
    memory=15 * _GIB,
    speed=Speed(memory_bytes=300.0, lane_instructions=4_000.0),
    l2_bytes=4 * 2**20,
    memory_clock_khz=5_001_000,
    memory_bus_bits=256,
)
SM_86: Final = DevicePreset(
    name="Emulated sm_86",
    capability=(8, 6),
    multiprocessors=82,
    sm=SmModel(1536, 16, 102_400, 101_376, 1),
    memory=24 * _GIB,
    speed=Speed(memory_bytes=900.0, lane_instructions=15_000.0),
    l2_bytes=6 * 2**20,
    memory_clock_khz=9_751_000,
    memory_bus_bits=384,
)
H200: Final = DevicePreset(
    name="Emulated H200",
    capability=(9, 0),
    multiprocessors=132,
    sm=SmModel(2048, 32, 233_472, 232_448, 2),
    memory=140 * _GIB,
    speed=Speed(memory_bytes=4_800.0, lane_instructions=30_000.0),
    l2_bytes=60 * 2**20,
    memory_clock_khz=3_201_000,
    memory_bus_bits=6144,
)
SM_120: Final = DevicePreset(
    name="Emulated sm_120",
    capability=(12, 0),
    multiprocessors=170,
    sm=SmModel(1536, 24, 102_400, 101_376, 1),
    memory=32 * _GIB,
    speed=Speed(memory_bytes=1_800.0, lane_instructions=50_000.0),
    l2_bytes=96 * 2**20,
    memory_clock_khz=14_001_000,
    memory_bus_bits=512,
)
TINY: Final = DevicePreset(
    name="Emulated tiny device",
    capability=(9, 0),
    multiprocessors=2,
    sm=SmModel(128, 4, 16_384, 12_288, 2),
    memory=_GIB // 4,
    speed=Speed(memory_bytes=10.0, lane_instructions=100.0),
    l2_bytes=2**17,
    memory_clock_khz=100_000,
    memory_bus_bits=64,
    max_threads_per_block=64,
    max_block=(64, 32, 16),
    max_grid=(4096, 64, 64),
    shared_per_block=8192,
)
PRESETS: Final = {"t4": T4, "sm_86": SM_86, "h200": H200, "sm_120": SM_120, "tiny": TINY}
"""The presets by name.

T4 is sm_75, H200 sm_90.  ``tiny`` is no product: its limits are low enough to be reached in a test.
"""

_PTX_OF_CUDA: Final = {
    1100: 70, 1101: 71, 1102: 72, 1103: 73, 1104: 74, 1105: 75, 1106: 76, 1107: 77, 1108: 78,
    1200: 80, 1201: 81, 1202: 82, 1203: 83, 1204: 84, 1205: 85, 1207: 86, 1208: 87, 1209: 88,
    1300: 90, 1301: 91, 1302: 92, 1303: 93,
}  # fmt: skip


def newest_ptx(driver_version: int) -> int:
    """Returns the newest PTX version (``10 * major + minor``) that a driver of ``driver_version`` reads."""
    release = driver_version // 1000 * 100 + driver_version % 1000 // 10
    return max(ptx for cuda, ptx in _PTX_OF_CUDA.items() if cuda <= release)
