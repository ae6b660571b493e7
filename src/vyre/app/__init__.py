"""The application layer: sessions, backend selection, tuning, calibration, the container and the command line."""

from __future__ import annotations

from vyre.app.views import view_by


def _view_of(shown: object) -> str:
    from vyre.app.notebooks.views import view_of  # imported on use

    return view_of(shown)


view_by(_view_of)
