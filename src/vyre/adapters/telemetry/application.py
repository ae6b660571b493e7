"""The default telemetry: events go to the logging that the application has set up, and nothing is imported for it.

In order: structlog, if the application configured it; the standard ``logging`` logger ``vyre``, if the application
imported ``logging`` (silent until it adds a handler, as is right for a library); else events are dropped.  That the
reference runs is a line on standard error, unless structlog tells it.  Counts are not logged.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Final

from vyre.domain.printable import one_line
from vyre.ports.support import NullTelemetry

_LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class ApplicationTelemetry(NullTelemetry):
    """``Telemetry`` that uses the application's logging."""

    __slots__ = ()

    def event(self, name: str, /, *, level: str = "info", **fields: object) -> None:
        structlog = sys.modules.get("structlog")
        if structlog is not None and structlog.is_configured():
            structlog.get_logger("vyre").log(_LEVELS[level], name, **fields)
            return
        logging = sys.modules.get("logging")
        if logging is not None:
            logger = logging.getLogger("vyre")
            if not logger.handlers:
                logger.addHandler(logging.NullHandler())
            logger.log(_LEVELS[level], "%s %s", name, " ".join(f"{k}={v!r}" for k, v in fields.items()))
        if name == "vyre.backend.reference_selected" and sys.stderr is not None:
            with suppress(OSError, ValueError):  # nobody reads it, or it is closed
                print(one_line(f"vyre runs on `{fields['backend']}`: {fields['reason']}"), file=sys.stderr)
