"""What a backend on a driver would be like, without making one: the runtime is not even imported."""

from __future__ import annotations

from vyre.adapters.cuda.runtime.device import DEFAULT_OPTIONS, CudaDevice, CudaOptions
from vyre.adapters.cuda.runtime.facts import CudaDeviceFacts, profile_of
from vyre.adapters.cuda.seam import CudaDriver
from vyre.domain.device import DeviceProfile
from vyre.domain.ir.program import BackendId
from vyre.policies.launching.grid_sync_mode import GridSyncMode


def probe(driver: CudaDriver, backend: BackendId, options: CudaOptions = DEFAULT_OPTIONS) -> DeviceProfile:
    """The profile that ``make_backend`` would give."""
    return profile_under(CudaDevice(driver, options, backend=backend).facts, backend, options)


def profile_under(facts: CudaDeviceFacts, backend: BackendId, options: CudaOptions) -> DeviceProfile:
    return profile_of(facts, backend, native_grid_sync=options.grid_sync is not GridSyncMode.SPLIT)
