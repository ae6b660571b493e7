"""Which properties of a CUDA device does the choice of a kernel shape depend on?  O(1)."""

from __future__ import annotations

from typing import Final

from vectors.seeds.launch_diagnosis import DeviceEnvelope
from vectors.seeds.plan_cache import MegakernelDeviceKey

_GRID_SYNC_SM_MAJOR: Final = 6


_TENSOR_CORES_SM_MAJOR: Final = 7


def device_key(device: DeviceEnvelope, warp_size: int) -> MegakernelDeviceKey:
    """Returns the key of a device.

    A grid-wide barrier requires compute capability 6.0 and cooperative launches.  Tensor cores require 7.0 and a device
    that has them, which not all of that generation do.
    """
    return MegakernelDeviceKey(
        sm_major=device.sm_major,
        sm_minor=device.sm_minor,
        warp_size=warp_size,
        supports_grid_sync=device.supports_cooperative_launch and device.sm_major >= _GRID_SYNC_SM_MAJOR,
        supports_tensor_cores=device.supports_tensor_cores and device.sm_major >= _TENSOR_CORES_SM_MAJOR,
        max_workgroup_size=device.max_threads_per_block,
    )
