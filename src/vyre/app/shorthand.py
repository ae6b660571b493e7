"""Shorthand: keywords of a call that stand for fields of a ``DispatchConfig``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict

from vyre.domain.arguments import expect
from vyre.domain.dispatch import DEFAULT_CONFIG, DispatchConfig, axes_of
from vyre.domain.errors import InvalidConfig, InvalidInput
from vyre.domain.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vyre.app.resident import ResidentArray
    from vyre.domain.names import Grid, Size
    from vyre.domain.specialization import SpecInput, SpecMap


@frozen(eq=False)
class Indirect:
    """A number of workgroups that a launch finds in memory of the device when it begins.

    ``counts``: a resident array of u32, or a part of one, such as ``sizes[3:6]``; its first three elements are the
    workgroups along x, y and z, and an axis of 0 runs nothing.  An earlier launch may write them; the launch itself
    must not.  ``most``: the most workgroups along each axis, as for ``grid``.  A launch that finds more along any axis
    runs nothing, and ``GridOverflow`` is raised when all is done.

    Raises ``InvalidInput`` for other memory, and ``InvalidConfig`` for a ``most`` that is no grid.
    """

    counts: ResidentArray
    most: Grid

    def __post_init__(self) -> None:
        from vyre.app.resident import ResidentArray

        expect("counts", self.counts, ResidentArray, "a resident array of u32", InvalidInput)
        if self.counts.dtype != "uint32" or self.counts.nbytes < 12:
            raise InvalidInput(
                f"counts is {self.counts!r}", fix="make it with session.resident(numpy.ones(3, numpy.uint32))."
            )
        object.__setattr__(self, "most", (*axes_of("most", self.most), 1, 1)[:3])


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
    settings: dict[str, Any] = {name: value for name, value in passed.items() if value is not None}
    if race_check is not False:
        settings["race_check"] = race_check
    for name in settings:
        if getattr(base, name):
            raise InvalidConfig(f"{name} is given twice", fix="pass it as a keyword or in the config, not both.")
    return replace(base, **settings) if settings else base
