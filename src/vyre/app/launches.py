"""Launch geometry for ``Result.launch``, computed on demand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from vyre.domain.dispatch import DispatchConfig
from vyre.domain.geometry import LaunchGeometry
from vyre.domain.ir.buffers import Buffer, inputs_of
from vyre.domain.launch import Interface, geometry_of


class Launches:
    """Computes ``Result.launch`` for the dispatches of one program under one config.

    A dispatch records only the lengths of its inputs, and not even these where they do not affect the geometry.
    """

    __slots__ = ("_config", "_interface", "_last", "fixed")

    def __init__(self, buffers: Sequence[Buffer], interface: Callable[[], Interface], config: DispatchConfig) -> None:
        """``interface`` is called only when a geometry is requested."""
        lengths = [buffer.static_nbytes for buffer in inputs_of(buffers)]
        known = tuple(nbytes for nbytes in lengths if nbytes is not None)
        has_geometry = config.grid or config.extent or config.element_count_override is not None
        self.fixed: Final = known if has_geometry or len(known) == len(lengths) else None
        self._interface: Final = interface
        self._config: Final = config
        self._last: tuple[tuple[int, ...], LaunchGeometry] | None = None

    def lengths(self, views: Sequence[memoryview]) -> tuple[int, ...]:
        """Returns the bytes of each input that affects the geometry; ``views`` have items of one byte."""
        fixed = self.fixed
        return fixed if fixed is not None else tuple(map(len, views))

    def geometry(self, lengths: tuple[int, ...]) -> LaunchGeometry:
        """Returns the geometry for inputs of these ``lengths``; the same object for the same lengths in succession."""
        last = self._last
        if last is None or last[0] != lengths:
            last = self._last = lengths, geometry_of(self._interface(), lengths, self._config)
        return last[1]
