"""The two CUDA backends: ``cuda`` on the driver of this machine, ``cuda-machine`` on an emulated one."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from vyre.adapters.cuda import ids
from vyre.domain.device import DeviceProfile
from vyre.ports.backend import Backend, BackendCatalog, BackendRegistration, BackendRole, BackendServices

if TYPE_CHECKING:
    from vyre.adapters.cuda.runtime.device import CudaOptions
    from vyre.adapters.cuda.seam import CudaDriver
    from vyre.domain.names import BackendId
    from vyre.ports.bundles import BundleSupport
    from vyre.ports.emission import CodeEmission
    from vyre.ports.support import Environment


def _cuda(services: BackendServices, options: CudaOptions | None = None) -> Backend:
    from vyre.adapters.cuda.code_tools import find_code_tool
    from vyre.adapters.cuda.drivers import jit_cache_settings, real_driver
    from vyre.adapters.cuda.runtime.backend import make_backend
    from vyre.adapters.cuda.runtime.options import options_from
    from vyre.adapters.system import USED_ENVIRONMENT

    driver = real_driver()
    problem = jit_cache_settings(os.environ).problem
    if problem:
        services.telemetry.event("vyre.cuda.driver_cache", problem=problem)
    return make_backend(
        driver,
        ids.CUDA,
        options or options_from(services.environment or USED_ENVIRONMENT.get()),
        services,
        profiler=services.profiler,
        find_tool=find_code_tool,
    )


def _probe_cuda(options: CudaOptions | None = None, environment: Environment | None = None) -> DeviceProfile:
    from vyre.adapters.cuda.drivers import real_driver

    driver = real_driver()  # first, because without a driver no other module need be imported
    from vyre.adapters.cuda.runtime.options import options_from
    from vyre.adapters.system import USED_ENVIRONMENT

    return _profile(driver, ids.CUDA, options or options_from(environment or USED_ENVIRONMENT.get()))


def _machine(services: BackendServices, options: CudaOptions | None = None) -> Backend:
    from vyre.adapters.cuda.drivers import machine_driver
    from vyre.adapters.cuda.runtime.backend import make_backend

    driver = machine_driver()
    return make_backend(
        driver,
        ids.MACHINE,
        _machine_options(options, services.environment),
        services,
        work_done=lambda: driver.lane_instructions,
    )


def _probe_machine(options: CudaOptions | None = None) -> DeviceProfile:
    from vyre.adapters.cuda.drivers import machine_driver

    return _profile(machine_driver(), ids.MACHINE, _machine_options(options))


def _profile(driver: CudaDriver, backend: BackendId, options: CudaOptions) -> DeviceProfile:
    """Returns the profile that the backend would have; most of the runtime is not even imported."""
    from vyre.adapters.cuda.runtime.device import CudaDevice
    from vyre.adapters.cuda.runtime.facts import profile_of

    return profile_of(CudaDevice(driver, options, backend=backend).facts, backend, options.grid_sync)


def _machine_options(options: CudaOptions | None, environment: Environment | None = None) -> CudaOptions:
    from vyre.adapters.cuda.runtime.options import emulated, machine_options_from
    from vyre.adapters.system import USED_ENVIRONMENT

    return machine_options_from(environment or USED_ENVIRONMENT.get()) if options is None else emulated(options)


def _emission() -> CodeEmission:
    from vyre.adapters.cuda.emission import PtxEmission

    return PtxEmission()


def _bundles() -> BundleSupport:
    from vyre.adapters.cuda.aot.bundles import CudaBundles

    return CudaBundles()


CUDA: Final = BackendRegistration(
    id=ids.CUDA,
    rank=100,
    role=BackendRole.PRODUCTION,
    factory=_cuda,
    probe=_probe_cuda,
    probe_in=partial(_probe_cuda, None),
    emission=_emission,
    bundles=_bundles,
    emitter=ids.emitter_version,
    packages=("cuda-python",),
)
CUDA_MACHINE: Final = BackendRegistration(
    id=ids.MACHINE,
    rank=950,
    role=BackendRole.EMULATION,
    factory=_machine,
    probe=_probe_machine,
    emission=_emission,
    bundles=_bundles,
    emitter=ids.emitter_version,
)


def cuda_catalog(options: CudaOptions) -> BackendCatalog:
    """Returns all backends of this process, with the two CUDA backends taking ``options`` instead of the environment's.

    The result can be passed to ``vyre.open`` and to the container.  The emulated device ignores ``ordinal`` and
    ``exports``.
    """
    from vyre.adapters.cuda.runtime.device import CudaOptions
    from vyre.adapters.discovery import load_catalog
    from vyre.domain.arguments import expect

    expect("options", options, CudaOptions, "CudaOptions")
    ours = {
        CUDA.id: replace(
            CUDA, factory=partial(_cuda, options=options), probe=partial(_probe_cuda, options), probe_in=None
        ),
        CUDA_MACHINE.id: replace(
            CUDA_MACHINE, factory=partial(_machine, options=options), probe=partial(_probe_machine, options)
        ),
    }
    catalog = load_catalog()
    return replace(catalog, registrations=tuple(ours.get(each.id, each) for each in catalog.registrations))
