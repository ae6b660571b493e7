"""The native CPU backend: kernels as machine code of this processor, on all its threads."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from vyre.adapters.cpu.ids import CPU as ID
from vyre.ports.backend import Backend, BackendCatalog, BackendRegistration, BackendRole, BackendServices

if TYPE_CHECKING:
    from vyre.adapters.cpu.runtime.options import CpuOptions
    from vyre.domain.device import DeviceProfile


def _options(options: CpuOptions | None) -> CpuOptions:
    if options is not None:
        return options
    from vyre.adapters.cpu.pool.options import options_from
    from vyre.adapters.cpu.runtime.options import CpuOptions
    from vyre.adapters.system import ProcessEnvironment

    found = options_from(ProcessEnvironment())
    return CpuOptions(threads=found.threads, affinity=found.affinity)


def _make(services: BackendServices, options: CpuOptions | None = None) -> Backend:
    from vyre.adapters.cpu.runtime.backend import make_backend
    from vyre.adapters.cpu.runtime.tools import native_tools

    return make_backend(native_tools(), _options(options), services)


def _probe(options: CpuOptions | None = None) -> DeviceProfile:
    from vyre.adapters.cpu.native.features import host
    from vyre.adapters.cpu.runtime.probe import profile_of

    return profile_of(host(), _options(options))


CPU: Final = BackendRegistration(
    id=ID,
    rank=200,
    role=BackendRole.PRODUCTION,
    factory=_make,
    probe=_probe,
    packages=("llvmlite",),
)


def cpu_catalog(options: CpuOptions) -> BackendCatalog:
    """Returns all backends of this process; the native CPU backend takes ``options`` instead of the environment's.

    The result can be passed to ``vyre.open`` and to the container.
    """
    from vyre.adapters.cpu.runtime.options import CpuOptions
    from vyre.adapters.discovery import load_catalog
    from vyre.domain.arguments import expect

    expect("options", options, CpuOptions, "CpuOptions")
    ours = replace(CPU, factory=partial(_make, options=options), probe=partial(_probe, options))
    catalog = load_catalog()
    return replace(catalog, registrations=tuple(ours if each.id == ID else each for each in catalog.registrations))
