"""The geometry of the launches of one program, worked out when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from vyre.domain.dispatch import DispatchConfig
from vyre.domain.geometry import LaunchGeometry
from vyre.domain.ir.buffers import Buffer
from vyre.domain.launch import Interface, geometry_of


class Launches:
    """``Result.launch`` of the dispatches of one program under one config.

    A dispatch only notes the lengths of its inputs, and not even these where they decide nothing.
    """

    __slots__ = ("_config", "_interface", "_last", "fixed")

    def __init__(self, buffers: Sequence[Buffer], interface: Callable[[], Interface], config: DispatchConfig) -> None:
        """``interface`` is called at most when a geometry is asked for."""
        lengths = [buffer.static_nbytes for buffer in buffers if buffer.takes_input]
        known = tuple(nbytes for nbytes in lengths if nbytes is not None)
        given = config.grid or config.extent or config.element_count_override is not None
        self.fixed: Final = known if given or len(known) == len(lengths) else None
        self._interface: Final = interface
        self._config: Final = config
        self._last: tuple[tuple[int, ...], LaunchGeometry] | None = None

    def lengths(self, views: Sequence[memoryview]) -> tuple[int, ...]:
        """The bytes of each input, as far as they decide the geometry; ``views`` are of single bytes."""
        fixed = self.fixed
        return fixed if fixed is not None else tuple(map(len, views))

    def geometry(self, lengths: tuple[int, ...]) -> LaunchGeometry:
        """The geometry of the launch of inputs with these ``lengths``; the same object for the same lengths in turn."""
        last = self._last
        if last is None or last[0] != lengths:
            last = self._last = lengths, geometry_of(self._interface(), lengths, self._config)
        return last[1]
