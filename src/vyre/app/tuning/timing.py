"""Timing of one run of a pipeline, by the clock that its backend is measured with."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from vyre.domain.errors import UnsupportedFeature
from vyre.domain.tuning import TimeKind

if TYPE_CHECKING:
    from vyre.app.pipeline import Pipeline
    from vyre.ports.backend import Backend
    from vyre.ports.requests import HostBytes

WARM_UP: Final = 3
"""Runs before the first measured one: memory is faulted in, code is loaded, launches are recorded."""


def run_ns(pipeline: Pipeline, views: tuple[HostBytes, ...], kind: TimeKind, now_ns: Callable[[], int]) -> int:
    """Returns the time of one run in ns, at least 1: device time, or the whole dispatch on the host.

    Raises what the run raises, and ``UnsupportedFeature`` if a device reported no time.
    """
    started = now_ns()
    timing = pipeline.run(views, None, None).timing
    ended = now_ns()
    if kind is TimeKind.HOST:
        return max(1, ended - started)
    if timing.device_ns is None:
        raise UnsupportedFeature(feature="times of the device", backend=pipeline.backend)
    return max(1, timing.device_ns)


def estimated_cost(pipeline: Pipeline, views: tuple[HostBytes, ...], backend: Backend) -> int:
    """Returns the count of the model of a backend of kind ESTIMATED for one run, at least 1."""
    tunable = backend.tunable
    assert tunable is not None  # a backend of kind ESTIMATED has a model
    before = tunable.work_done()
    pipeline.run(views, None, None)
    return max(1, tunable.work_done() - before)


def bytes_of(pipeline: Pipeline, views: tuple[HostBytes, ...]) -> dict[str, bytes]:
    """Returns the outputs of one run by name."""
    return {name: output.tobytes() for name, output in pipeline.run(views, None, None).items()}
