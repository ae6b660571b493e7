"""Keywords of a call as the fields of a ``DispatchConfig``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from vyre.domain.dispatch import DEFAULT_CONFIG, DispatchConfig
from vyre.domain.errors import InvalidConfig
from vyre.domain.names import Dim3

if TYPE_CHECKING:
    from vyre.domain.specialization import SpecMap

Grid: TypeAlias = "int | tuple[int, ...]"


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
    if not isinstance(base, DispatchConfig):
        raise InvalidConfig(f"config is a {type(base).__name__}", fix="pass a DispatchConfig or keywords.")
    given: dict[str, object] = {}
    if spec is not None:
        given["spec"] = spec
    if grid is not None:
        given["grid"] = dim3(grid)
    if extent is not None:
        given["extent"] = extent if isinstance(extent, tuple) else (extent,)
    if output_counts is not None:
        given["output_counts"] = dict(output_counts)
    if race_check:
        given["race_check"] = race_check
    for name in given:
        if getattr(base, name):
            raise InvalidConfig(f"{name} is given twice", fix="pass it as a keyword or in the config, not both.")
    return replace(base, **given) if given else base  # type: ignore[arg-type]  # keys are field names


def dim3(axes: Grid, what: str = "grid") -> Dim3:
    """Three axes, those left out being 1.  Raises ``InvalidConfig`` for none or more than three."""
    given = axes if isinstance(axes, tuple) else (axes,)
    if not 1 <= len(given) <= 3:
        raise InvalidConfig(f"{what}={axes!r} has {len(given)} axes", fix="give one to three values.")
    x, y, z = (*given, 1, 1)[:3]
    return x, y, z
