"""Inputs of tuning: the stores in the cache directory, the pins of a file, and the reference backend."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache as once
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from vyre.adapters.discovery import load_catalog
from vyre.adapters.disk.configuration import CacheOption, cache_settings
from vyre.app.selection import BackendSelector
from vyre.domain.arguments import path_of
from vyre.domain.errors import InvalidConfig, UnsupportedFeature
from vyre.domain.printable import shown
from vyre.ports.backend import BackendRole

if TYPE_CHECKING:
    from vyre.domain.tuning_pins import Pins
    from vyre.ports.backend import Backend, BackendCatalog
    from vyre.ports.cost_store import CostStore
    from vyre.ports.support import Environment, Telemetry
    from vyre.ports.tuning_store import TuningStore
    from vyre.ports.verdict_store import VerdictStore
    from vyre.ports.wave_time_store import WaveTimeStore

PinsOption: TypeAlias = "Pins | Path | str | None"
"""Pins, the file that holds them, or None for no pins."""


def no_store() -> None:
    """Opens no store."""


class TuningSources(NamedTuple):
    """The inputs of tuning in one session.

    ``store`` holds samples, ``costs`` launch costs, ``wave_times`` times of waves and ``verdicts`` checks of lowerings;
    None where nothing is stored.
    ``reference`` returns a new backend on each call.  ``pins``: None for no pins.
    """

    store: Callable[[], TuningStore | None]
    reference: Callable[[], Backend]
    costs: Callable[[], CostStore | None]
    pins: Pins | None = None
    wave_times: Callable[[], WaveTimeStore | None] = no_store
    verdicts: Callable[[], VerdictStore | None] = no_store


def tuning_sources(
    pins: PinsOption,
    reference: Callable[[], Backend],
    store: Callable[[], TuningStore | None],
    costs: Callable[[], CostStore | None],
    wave_times: Callable[[], WaveTimeStore | None],
    verdicts: Callable[[], VerdictStore | None],
) -> TuningSources:
    """Returns sources that open each store once, when it is first used.

    Raises ``UnreadableFile`` and ``MalformedJson`` for a file of pins.
    """
    return TuningSources(once(store), reference, once(costs), load_pins(pins), once(wave_times), once(verdicts))


def tuning_store(cache: CacheOption, environment: Environment, telemetry: Telemetry) -> TuningStore | None:
    """Returns the store of samples of the tuner; None for a disabled cache."""
    from vyre.adapters.disk.tuning_store import DiskTuningStore  # imported on use

    settings = cache_settings(cache, environment)
    return None if settings is None else DiskTuningStore(str(settings.directory), telemetry)


def cost_store(cache: CacheOption, environment: Environment) -> CostStore | None:
    """Returns the store of launch costs; None for a disabled cache."""
    from vyre.adapters.disk.cost_store import DiskCostStore

    settings = cache_settings(cache, environment)
    return None if settings is None else DiskCostStore(str(settings.directory))


def wave_time_store(cache: CacheOption, environment: Environment) -> WaveTimeStore | None:
    """Returns the store of times of waves; None for a disabled cache."""
    from vyre.adapters.disk.wave_time_store import DiskWaveTimeStore

    settings = cache_settings(cache, environment)
    return None if settings is None else DiskWaveTimeStore(str(settings.directory))


def verdict_store(cache: CacheOption, environment: Environment, telemetry: Telemetry) -> VerdictStore | None:
    """Returns the store of checks of lowerings; None for a disabled cache."""
    from vyre.adapters.disk.verdict_store import DiskVerdictStore

    settings = cache_settings(cache, environment)
    return None if settings is None else DiskVerdictStore(str(settings.directory), telemetry)


def load_pins(pins: PinsOption) -> Pins | None:
    """Returns the pins.  Raises ``UnreadableFile``, ``MalformedJson``, and ``InvalidConfig`` for an argument of another
    kind.
    """
    if pins is None:
        return None
    from vyre.domain.tuning_pins import Pins  # imported on use

    match pins:
        case Pins():
            return pins
        case Path() | str() if str(pins):
            return _pins_of_file(path_of("pins", pins))
    raise InvalidConfig(
        f"pins={shown(pins)} are no pins", fix="pass the path of a file that `vyre tune --export` wrote."
    )


def _pins_of_file(path: Path) -> Pins:
    from vyre.adapters.files import read_file
    from vyre.domain.tuning_pins import pins_of

    return pins_of(read_file(path))


def reference_of(catalog: BackendCatalog, telemetry: Telemetry) -> Backend:
    """Returns the reference backend of ``catalog``, or else the installed one; raises ``UnsupportedFeature`` without
    any.
    """
    for found in (catalog, load_catalog()):
        for registration in found.by_precedence():
            if registration.role is BackendRole.REFERENCE:
                return BackendSelector(found, telemetry).select(registration.id).backend
    raise UnsupportedFeature(feature="tuning without a reference to check bytes against", backend="reference")
