"""The two CUDA backends: ``cuda`` on the driver of this machine, ``cuda-machine`` on an emulated one."""

from __future__ import annotations

import os
from typing import Final

from vyre.adapters.cuda import ids
from vyre.adapters.cuda.drivers import machine_driver, real_driver
from vyre.domain.device import DeviceProfile
from vyre.ports.backend import Backend, BackendRegistration, BackendRole, BackendServices


def _cuda(services: BackendServices) -> Backend:
    from vyre.adapters.cuda.code_tools import find_code_tool
    from vyre.adapters.cuda.jit_cache import jit_cache_settings
    from vyre.adapters.cuda.runtime.backend import make_backend
    from vyre.adapters.cuda.runtime.options import options_from
    from vyre.adapters.cuda.runtime.profiling import profiler_from
    from vyre.adapters.system import ProcessEnvironment

    environment = ProcessEnvironment()
    driver = real_driver()
    problem = jit_cache_settings(os.environ).problem
    if problem:
        services.telemetry.event("vyre.cuda.driver_cache", problem=problem)
    return make_backend(
        driver,
        ids.CUDA,
        options_from(environment),
        services,
        profiler=profiler_from(environment),
        find_tool=find_code_tool,
    )


def _probe_cuda() -> DeviceProfile:
    driver = real_driver()  # where there is none, nothing else need be imported
    from vyre.adapters.cuda.runtime.options import options_from
    from vyre.adapters.cuda.runtime.probe import probe
    from vyre.adapters.system import ProcessEnvironment

    return probe(driver, ids.CUDA, options_from(ProcessEnvironment()))


def _machine(services: BackendServices) -> Backend:
    from vyre.adapters.cuda.runtime.backend import make_backend
    from vyre.adapters.cuda.runtime.device import CudaOptions

    driver = machine_driver()
    options = CudaOptions(exports=False)
    return make_backend(driver, ids.MACHINE, options, services, work_done=lambda: driver.lane_instructions)


def _probe_machine() -> DeviceProfile:
    from vyre.adapters.cuda.runtime.probe import probe

    return probe(machine_driver(), ids.MACHINE)


CUDA: Final = BackendRegistration(id=ids.CUDA, rank=100, role=BackendRole.PRODUCTION, factory=_cuda, probe=_probe_cuda)
CUDA_MACHINE: Final = BackendRegistration(
    id=ids.MACHINE, rank=950, role=BackendRole.EMULATION, factory=_machine, probe=_probe_machine
)
