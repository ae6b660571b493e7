"""The container that wires an application: override a provider to swap the adapter behind a port.

container = Container()
container.telemetry.override(providers.Object(RecordingTelemetry()))
with container.session() as session: ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre.domain.lazy_names import importer

if TYPE_CHECKING:
    from vyre.app.container import Container

__all__ = ["Container"]
__getattr__ = importer(__name__, {"Container": "vyre.app.container"})
