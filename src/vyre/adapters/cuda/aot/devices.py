"""The devices on which bundles run, by the names of their backends."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from vyre.adapters.cuda import ids
from vyre.domain.errors import BackendUnavailable

if TYPE_CHECKING:
    from vyre.adapters.cuda.aot.bundle import Bundle
    from vyre.adapters.cuda.aot.running import BundleRunner


def open_runner(bundle: Bundle, backend: str) -> BundleRunner:
    """The bundle on a device, its code loaded.

    Raises ``BackendUnavailable`` for a backend that runs no bundles or is not there, and what ``BundleRunner`` raises.
    """
    make = _RUNNERS.get(backend)
    if make is None:
        raise BackendUnavailable(f"backend `{backend}` runs no bundles", fix=f"use one of {', '.join(_RUNNERS)}.")
    runner = make(bundle)
    runner.open()
    return runner


def _cuda(bundle: Bundle) -> BundleRunner:
    from vyre.adapters.cuda.aot.running import BundleRunner
    from vyre.adapters.cuda.drivers import real_driver
    from vyre.adapters.cuda.runtime.options import options_from
    from vyre.adapters.cuda.runtime.profiling import profiler_from
    from vyre.adapters.system import ProcessEnvironment

    environment = ProcessEnvironment()
    profiler = profiler_from(environment)
    return BundleRunner(real_driver(), ids.CUDA, bundle, options_from(environment), profiler=profiler)


def _machine(bundle: Bundle) -> BundleRunner:
    from vyre.adapters.cuda.aot.running import BundleRunner
    from vyre.adapters.cuda.drivers import machine_driver
    from vyre.adapters.cuda.runtime.options import machine_options_from
    from vyre.adapters.system import ProcessEnvironment

    options = machine_options_from(ProcessEnvironment())
    return BundleRunner(machine_driver(), ids.MACHINE, bundle, options, machine_code=False)


_RUNNERS: Final[dict[str, Callable[[Bundle], BundleRunner]]] = {str(ids.CUDA): _cuda, str(ids.MACHINE): _machine}
