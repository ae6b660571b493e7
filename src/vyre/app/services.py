"""Services that a session gives to its backend."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache as once
from functools import partial
from typing import TYPE_CHECKING

from vyre.adapters.disk.configuration import CacheOption, config_of
from vyre.domain.host_options import host_options
from vyre.ports.backend import BackendServices

if TYPE_CHECKING:
    from vyre.policies.journal import DecisionSink
    from vyre.ports.artifact_store import ArtifactStore
    from vyre.ports.device_passes import DevicePassesOf
    from vyre.ports.support import Environment, Telemetry


def backend_services(
    cache: CacheOption,
    environment: Environment,
    telemetry: Telemetry,
    decisions: DecisionSink | None = None,
    threads: int | None = None,
    affinity: Iterable[int] | None = None,
    optimize: bool = True,
    device_passes: DevicePassesOf | None = None,
    store: Callable[[], ArtifactStore | None] | None = None,
) -> BackendServices:
    """Returns services whose store is opened when the backend first requests it: by ``store``, else as ``cache`` says.

    Raises ``InvalidConfig`` for an invalid ``cache``, ``threads`` or ``affinity``.
    """
    config_of(cache)
    host = host_options(threads, affinity)

    if store is None:
        store = partial(artifact_store, cache, environment, telemetry, decisions)
    return BackendServices(
        artifacts=once(store),
        telemetry=telemetry,
        decisions=decisions,
        host=host,
        optimize=optimize,
        device_passes=device_passes,
        environment=environment,
    )


def artifact_store(
    cache: CacheOption, environment: Environment, telemetry: Telemetry, decisions: DecisionSink | None
) -> ArtifactStore | None:
    """Returns the store of compiled code; None for a disabled cache."""
    from vyre.adapters.disk.artifact_store import open_disk_store  # imported on use

    return open_disk_store(cache, environment, telemetry, sink=decisions)
