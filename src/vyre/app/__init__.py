"""The application layer: sessions, backend selection, tuning, calibration, the container and the command line."""

from __future__ import annotations

from vyre.domain.lazy_names import place_functions

place_functions({"as_html": "vyre.app.notebooks.views.view_of"})
