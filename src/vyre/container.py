"""The container that wires an application: override a provider to swap the adapter behind a port.

container = Container()
container.telemetry.override(providers.Object(RecordingTelemetry()))
with container.session() as session: ...
with container.applied(): ...  # vyre.open, called kernels and the command line use it, too
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vyre.app.cli import main as main
    from vyre.app.container import Container as Container
else:  # so that type checkers refuse names that do not exist
    from vyre.exporting import exports

    __all__, __getattr__, __dir__ = exports(__name__)
