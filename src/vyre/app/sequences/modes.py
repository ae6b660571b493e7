"""The modes that a caller forces or forbids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from vyre.domain.arguments import expect
from vyre.domain.errors import InvalidConfig
from vyre.domain.frozen import frozen
from vyre.domain.printable import shown
from vyre.policies.launching.execution_prices import ExecutionMode

ModesWanted: TypeAlias = "Mapping[str, bool] | Mapping[ExecutionMode, bool]"
"""Modes by name, or themselves: True forces a mode, False forbids it; the planner decides about the others."""
MEGAKERNEL: Final = "megakernel"
_NAMES: Final = (*(mode.value for mode in ExecutionMode), MEGAKERNEL)


@frozen
class Modes:
    """The modes that a caller forces (True), forbids (False) or leaves to the planner (None).

    ``graph``: all launches are submitted together; False: each by itself.  ``fused``: steps are joined wherever they
    can be.  ``persistent``: resident workers run the launches.  ``megakernel``: waves of steps are one
    launch.
    """

    graph: bool | None = None
    fused: bool | None = None
    persistent: bool | None = None
    megakernel: bool | None = None

    @property
    def joins(self) -> bool | None:
        """Returns whether steps are joined to launches: always, never, or as the planner decides."""
        return True if self.megakernel else self.fused

    @property
    def submission_is_free(self) -> bool:
        """Returns whether the planner decides how launches are submitted."""
        return self.graph is None and self.persistent is None


FREE: Final = Modes()


def modes_of(wanted: ModesWanted | None) -> Modes:
    """Returns the modes.

    "plain" is the absence of the others: True forbids them, and False forces a graph.  Raises ``InvalidConfig`` for an
    unknown mode, for values that are no bool, and for modes that exclude each other.
    """
    if wanted is None:
        return FREE
    expect("modes", wanted, Mapping, "a mapping from modes to True or False")
    modes: dict[ExecutionMode, bool] = {}
    megakernel: bool | None = None
    for name, value in wanted.items():
        if name == MEGAKERNEL:
            expect(f"modes[{MEGAKERNEL!r}]", value, bool, "True or False")
            megakernel = value
            continue
        try:
            mode = ExecutionMode(name)
        except ValueError:
            raise InvalidConfig(f"modes has {shown(name)}", fix=f"name one of {', '.join(_NAMES)}.") from None
        expect(f"modes[{mode.value!r}]", value, bool, "True or False")
        modes[mode] = value
    if megakernel:
        _exclude(modes, MEGAKERNEL, (ExecutionMode.PLAIN, ExecutionMode.FUSED, ExecutionMode.PERSISTENT))
    others = (ExecutionMode.GRAPH, ExecutionMode.FUSED, ExecutionMode.PERSISTENT)
    plain = modes.get(ExecutionMode.PLAIN)
    if plain:
        _exclude(modes, ExecutionMode.PLAIN.value, others)
        return Modes(False, False, False, False)
    if modes.get(ExecutionMode.PERSISTENT):
        _exclude(modes, ExecutionMode.PERSISTENT.value, (ExecutionMode.GRAPH,))
    graph, fused, persistent = (modes.get(mode) for mode in others)
    if plain is False and not persistent:
        if graph is False:
            raise InvalidConfig(
                "modes forbids plain launches and a graph", fix="leave one of them to the planner, or allow it."
            )
        graph = True
    return Modes(graph, fused, persistent, megakernel)


def _exclude(modes: Mapping[ExecutionMode, bool], one: str, others: tuple[ExecutionMode, ...]) -> None:
    for other in others:
        if modes.get(other):
            raise InvalidConfig(
                f"modes forces {one} and {other.value}, which exclude each other", fix="force one of them."
            )
