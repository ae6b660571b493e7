"""Keywords of a call as the fields of a ``DispatchConfig``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from vyre.domain.arguments import expect
from vyre.domain.dispatch import DEFAULT_CONFIG, DispatchConfig
from vyre.domain.errors import InvalidConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vyre.domain.names import Grid
    from vyre.domain.specialization import SpecMap


def merged(
    config: DispatchConfig | None,
    grid: Grid | None,
    extent: Grid | None,
    output_counts: Mapping[str, int] | None,
    spec: SpecMap | None = None,
    race_check: bool = False,
) -> DispatchConfig:
    """``config`` with what is not None folded in.  Raises ``InvalidConfig`` for what the config has set too."""
    base = config if config is not None else DEFAULT_CONFIG
    expect("config", base, DispatchConfig, "a DispatchConfig, or None and keywords")
    passed = {"spec": spec, "grid": grid, "extent": extent, "output_counts": output_counts}
    given: dict[str, Any] = {name: value for name, value in passed.items() if value is not None}
    if race_check is not False:
        given["race_check"] = race_check
    for name in given:
        if getattr(base, name):
            raise InvalidConfig(f"{name} is given twice", fix="pass it as a keyword or in the config, not both.")
    return replace(base, **given) if given else base
