"""The registration of the backend, to which the entry point leads: how it is probed and made."""

from __future__ import annotations

from typing import Final

from vyre.ports import Backend, BackendRegistration, BackendRole, BackendServices, DeviceProfile
from vyre_opencl import __version__
from vyre_opencl.device import ID, Device, facts, find_device, profile_of
from vyre_opencl.kernel import SUPPORTED_OPS
from vyre_opencl.pipeline import executor_on
from vyre_opencl.resident import ClMemory
from vyre_opencl.writer import unsupported

RANK: Final = 300
"""Behind vyre's own production backends."""


def _probe() -> DeviceProfile:
    return profile_of(find_device())


def _make(services: BackendServices) -> Backend:
    if services.host.given:
        raise unsupported("threads and affinity", "leave them out, or open `cpu`.")
    device = Device()
    executor = executor_on(device)
    memory = ClMemory(device, executor)
    return Backend(
        id=ID,
        version=__version__,
        profile=_probe(),
        executor=executor,
        compiler=executor,
        memory=memory,
        resident_executor=memory,
        resident_binder=memory,
        lifecycle=device,
        supported_ops=SUPPORTED_OPS,
    )


OPENCL: Final = BackendRegistration(
    id=ID,
    rank=RANK,
    role=BackendRole.PRODUCTION,
    factory=_make,
    probe=_probe,
    packages=("pyopencl",),
    on_host=True,  # the device may be the processor, so ``auto`` must not prefer it to ``cpu``: it is opened by name
    facts=facts,
)
