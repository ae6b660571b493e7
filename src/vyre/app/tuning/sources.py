"""Inputs of tuning: the stores in the cache directory, the pins of a file, and the reference backend."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from vyre.app.selection import BackendSelector
from vyre.app.services import installed
from vyre.domain.arguments import path_of
from vyre.domain.errors import InvalidConfig, UnsupportedFeature
from vyre.domain.printable import shown
from vyre.ports.backend import BackendRole

if TYPE_CHECKING:
    from vyre.domain.tuning_pins import Pins
    from vyre.ports.backend import Backend, BackendCatalog
    from vyre.ports.cost_store import CostStore
    from vyre.ports.support import Telemetry
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
    for backends in (catalog, installed()):
        for registration in backends.by_precedence():
            if registration.role is BackendRole.REFERENCE:
                return BackendSelector(backends, telemetry).select(registration.id).backend
    raise UnsupportedFeature(feature="tuning without a reference to check bytes against", backend="reference")
