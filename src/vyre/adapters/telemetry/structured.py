"""Events as entries of structlog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vyre.ports.support import NullTelemetry

if TYPE_CHECKING:
    from structlog.typing import BindableLogger


class StructlogTelemetry(NullTelemetry):
    """Tells every event to structlog: of sessions, caches, faults, fallbacks, and every decision at level ``debug``.

    An entry is bound to its session by ``session``, and to its dispatch by ``dispatch`` where it comes from inside one.
    ``logger``: a logger of structlog; None: ``structlog.get_logger("vyre")``.
    """

    tells_decisions: Final = True
    """Whether decisions are told, and dispatches numbered; ``vyre.open`` asks."""

    def __init__(self, logger: BindableLogger | None = None) -> None:
        import structlog

        self._logger = structlog.get_logger("vyre") if logger is None else logger

    def event(self, name: str, /, *, level: str = "info", **fields: object) -> None:
        """Implements ``Telemetry.event``."""
        bound = {key: fields.pop(key) for key in ("session", "dispatch") if key in fields}
        getattr(self._logger.bind(**bound), level)(name, **fields)
