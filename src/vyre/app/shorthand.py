"""Shorthand: keywords of a call that stand for fields of a ``DispatchConfig``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict

from vyre.domain.arguments import expect
from vyre.domain.dispatch import DEFAULT_CONFIG, DispatchConfig
from vyre.domain.errors import InvalidConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vyre.domain.names import Grid, Size
    from vyre.domain.specialization import SpecInput, SpecMap


class Keywords(TypedDict, total=False):
    """Keywords of every function that takes a ``config``: fields of a ``DispatchConfig``, of the same meaning.

    A field may be given here or in the config, not in both (``InvalidConfig``).  ``spec``: values of specialization
    constants by name; plain numbers take the type of the constant.  ``grid``: number of workgroups, and ``extent``:
    number of lanes, each an int or a tuple of one to three ints.  ``output_counts``: elements of outputs of open size,
    by name. ``race_check``: whether to report data races.  None and False are the same as an absent keyword.
    """

    spec: Mapping[str, SpecInput] | None
    grid: Grid | None
    extent: Grid | None
    output_counts: Mapping[str, Size] | None
    race_check: bool


def keywords_of(
    spec: Mapping[str, SpecInput] | None,
    grid: Grid | None,
    extent: Grid | None,
    output_counts: Mapping[str, Size] | None,
    race_check: bool,
) -> Keywords:
    """Returns the keywords of a call; none where all of them are absent."""
    if spec is None and grid is None and extent is None and output_counts is None and race_check is False:
        return Keywords()
    return Keywords(spec=spec, grid=grid, extent=extent, output_counts=output_counts, race_check=race_check)


def check_config(config: object) -> None:
    """Raises ``InvalidConfig`` for anything but a config or None."""
    expect("config", config, (DispatchConfig, type(None)), "a DispatchConfig, such as DispatchConfig(grid=4)")


def merged(
    config: DispatchConfig | None,
    grid: Grid | None,
    extent: Grid | None,
    output_counts: Mapping[str, Size] | None,
    spec: SpecMap | None = None,
    race_check: bool = False,
) -> DispatchConfig:
    """Returns ``config`` with the given fields set.  Raises ``InvalidConfig`` for a field that the config sets too."""
    check_config(config)
    base = config if config is not None else DEFAULT_CONFIG
    if spec is None and grid is None and extent is None and output_counts is None and race_check is False:
        return base
    passed = {"spec": spec, "grid": grid, "extent": extent, "output_counts": output_counts}
    given: dict[str, Any] = {name: value for name, value in passed.items() if value is not None}
    if race_check is not False:
        given["race_check"] = race_check
    for name in given:
        if getattr(base, name):
            raise InvalidConfig(f"{name} is given twice", fix="pass it as a keyword or in the config, not both.")
    return replace(base, **given) if given else base
