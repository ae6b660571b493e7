"""The profile of a backend on a driver, without making the backend: most of the runtime is not even imported."""

from __future__ import annotations

from vyre.adapters.cuda.runtime.device import DEFAULT_OPTIONS, CudaDevice, CudaOptions
from vyre.adapters.cuda.runtime.facts import CudaDeviceFacts, profile_of
from vyre.adapters.cuda.seam import CudaDriver
from vyre.domain.device import DeviceProfile
from vyre.domain.ir.program import BackendId
from vyre.policies.launching.grid_sync_mode import GridSyncMode


def probe(driver: CudaDriver, backend: BackendId, options: CudaOptions = DEFAULT_OPTIONS) -> DeviceProfile:
    """Returns the profile that ``make_backend`` would give its backend."""
    return profile_under(CudaDevice(driver, options, backend=backend).facts, backend, options)


def profile_under(facts: CudaDeviceFacts, backend: BackendId, options: CudaOptions) -> DeviceProfile:
    """Returns the profile of a device with these facts; ``options`` may turn native grid barriers off."""
    return profile_of(facts, backend, native_grid_sync=options.grid_sync is not GridSyncMode.SPLIT)
