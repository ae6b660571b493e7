"""How long one run of a pipeline takes, by the clock that its backend is measured by."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from vyre.domain.errors import UnsupportedFeature
from vyre.domain.tuning import TimeKind

if TYPE_CHECKING:
    from vyre.app.pipeline import Pipeline
    from vyre.ports.backend import Backend, HostBytes

WARM_UP: Final = 3
"""Runs before the first that counts: memory is faulted in, code is loaded, launches are recorded."""


def run_ns(pipeline: Pipeline, views: tuple[HostBytes, ...], kind: TimeKind, now_ns: Callable[[], int]) -> int:
    """Time of one run in ns, 1 or more: of the device, or of the whole dispatch on the host.

    Raises what the run raises, and ``UnsupportedFeature`` if a device did not tell.
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
    """What the model of a backend of kind ESTIMATED counts for one run, 1 or more."""
    tunable = backend.tunable
    assert tunable is not None  # whoever estimates has a model
    before = tunable.work_done()
    pipeline.run(views, None, None)
    return max(1, tunable.work_done() - before)


def bytes_of(pipeline: Pipeline, views: tuple[HostBytes, ...]) -> dict[str, bytes]:
    """The outputs of one run by name."""
    return {name: output.tobytes() for name, output in pipeline.run(views, None, None).items()}
