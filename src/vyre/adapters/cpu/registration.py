"""The native CPU backend: kernels as machine code of this processor, on all its threads."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from vyre.adapters.cpu.ids import CPU as ID
from vyre.domain.host_options import NO_HOST_OPTIONS, HostOptions
from vyre.ports.backend import Backend, BackendCatalog, BackendRegistration, BackendRole, BackendServices

if TYPE_CHECKING:
    from vyre.adapters.cpu.runtime.options import CpuOptions
    from vyre.domain.device import DeviceProfile
    from vyre.ports.bundles import BundleSupport
    from vyre.ports.emission import CodeEmission
    from vyre.ports.support import Environment


def _options(
    options: CpuOptions | None, host: HostOptions = NO_HOST_OPTIONS, environment: Environment | None = None
) -> CpuOptions:
    """Returns the options given for this backend, else those of the environment (None: that of the process); what
    ``host`` sets replaces them.
    """
    from vyre.adapters.cpu.pool.options import checked_affinity, options_from
    from vyre.adapters.cpu.runtime.options import CpuOptions
    from vyre.adapters.system import USED_ENVIRONMENT

    if options is None:
        settings = options_from(environment or USED_ENVIRONMENT.get())
        options = CpuOptions(threads=settings.threads, affinity=settings.affinity)
    if host.threads is not None:
        options = replace(options, threads=host.threads)
    if host.affinity is not None:
        options = replace(options, affinity=checked_affinity(host.affinity))
    return options


def _make(services: BackendServices, options: CpuOptions | None = None) -> Backend:
    from vyre.adapters.cpu.runtime.backend import make_backend
    from vyre.adapters.cpu.runtime.tools import native_tools

    settings = _options(options, services.host, services.environment)
    return make_backend(native_tools(settings.vector_bits), settings, services)


def _probe(options: CpuOptions | None = None, environment: Environment | None = None) -> DeviceProfile:
    from vyre.adapters.cpu.native.features import host
    from vyre.adapters.cpu.runtime.probe import profile_of

    return profile_of(host(), _options(options, environment=environment))


def _emission() -> CodeEmission:
    from vyre.adapters.cpu.emission import CpuEmission

    return CpuEmission()


def _bundles() -> BundleSupport:
    from vyre.adapters.cpu.aot.emitters import CpuBundles

    return CpuBundles()


def _toolchain() -> str:
    from vyre.adapters.cpu.runtime.tools import native_tools, toolchain_of

    return toolchain_of(native_tools(_options(None).vector_bits).features)


def _facts() -> dict[str, str]:
    from vyre.adapters.cpu.runtime.probe import facts_of
    from vyre.adapters.system import USED_ENVIRONMENT

    return facts_of(_options(None), USED_ENVIRONMENT.get())


CPU: Final = BackendRegistration(
    id=ID,
    rank=200,
    role=BackendRole.PRODUCTION,
    factory=_make,
    probe=_probe,
    probe_in=partial(_probe, None),
    emission=_emission,
    bundles=_bundles,
    packages=("llvmlite",),
    on_host=True,
    facts=_facts,
    toolchain=_toolchain,
)


def cpu_catalog(options: CpuOptions) -> BackendCatalog:
    """Returns all backends of this process; the native CPU backend takes ``options`` instead of the environment's.

    The result can be passed to ``vyre.open`` and to the container.
    """
    from vyre.adapters.cpu.runtime.options import CpuOptions
    from vyre.adapters.discovery import load_catalog
    from vyre.domain.arguments import expect

    expect("options", options, CpuOptions, "CpuOptions")
    ours = replace(CPU, factory=partial(_make, options=options), probe=partial(_probe, options), probe_in=None)
    catalog = load_catalog()
    return replace(catalog, registrations=tuple(ours if each.id == ID else each for each in catalog.registrations))
