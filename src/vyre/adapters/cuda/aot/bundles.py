"""The bundle facets of the two CUDA backends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from vyre.adapters.cuda import ids
from vyre.adapters.cuda.aot.build import Build, build_of, is_target
from vyre.ports.bundles import OwnEmitters
from vyre.ports.support import OF_THE_PROCESS, Surroundings

if TYPE_CHECKING:
    from vyre.adapters.cuda.aot.running import BundleRunner
    from vyre.ports.bundles import Bundle

DEFAULT_TARGET: Final = "sm_75"
"""The default target: its PTX runs on every device that the backend supports."""


class CudaBundles:
    """``BundleSupport`` for the devices on which ``make`` makes runners.

    ``builds`` tells whether the facet has the emitters.  Only one facet of this package has them, because the code is
    the same for both backends.
    """

    __slots__ = ("_builds", "_make")

    def __init__(self, make: Callable[[Bundle, Surroundings], BundleRunner], *, builds: bool) -> None:
        self._make = make
        self._builds = builds

    @property
    def default_target(self) -> str:
        """Returns ``sm_75``."""
        return DEFAULT_TARGET

    def emitters(self, *, machine_code: bool) -> OwnEmitters:
        """Implements ``BundleSupport.emitters``."""
        if not self._builds:
            return OwnEmitters(())
        from vyre.adapters.cuda.aot.emitters import own_emitters

        return own_emitters(machine_code=machine_code)

    def knows(self, target: str, /) -> bool:
        """Implements ``BuildForm.knows``."""
        return is_target(target)

    def build_of(self, value: Mapping[str, Any], codes: tuple[bytes, ...], /) -> Build:
        """Implements ``BuildForm.build_of``."""
        return build_of(value, codes)

    def open(self, bundle: Bundle, surroundings: Surroundings = OF_THE_PROCESS, /) -> BundleRunner:
        """Implements ``BundleSupport.open``."""
        runner = self._make(bundle, surroundings)
        runner.open()
        return runner


def _cuda(bundle: Bundle, surroundings: Surroundings) -> BundleRunner:
    from vyre.adapters.cuda.aot.running import BundleRunner
    from vyre.adapters.cuda.drivers import real_driver
    from vyre.adapters.cuda.runtime.options import options_from
    from vyre.adapters.system import USED_ENVIRONMENT

    options = options_from(surroundings.environment or USED_ENVIRONMENT.get())
    return BundleRunner(real_driver(), ids.CUDA, bundle, options, surroundings=surroundings)


def _machine(bundle: Bundle, surroundings: Surroundings) -> BundleRunner:
    from vyre.adapters.cuda.aot.running import BundleRunner
    from vyre.adapters.cuda.drivers import machine_driver
    from vyre.adapters.cuda.runtime.options import machine_options_from
    from vyre.adapters.system import USED_ENVIRONMENT

    options = machine_options_from(surroundings.environment or USED_ENVIRONMENT.get())
    return BundleRunner(machine_driver(), ids.MACHINE, bundle, options, machine_code=False, surroundings=surroundings)


CUDA_BUNDLES: Final = CudaBundles(_cuda, builds=True)
MACHINE_BUNDLES: Final = CudaBundles(_machine, builds=False)
