"""The result of a dispatch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

from vyre.app.misuse import ForeignResultUse
from vyre.app.views import as_html
from vyre.domain.dispatch import DispatchTiming
from vyre.domain.errors import UnknownOutput

if TYPE_CHECKING:
    import numpy.typing as npt

    from vyre.app.launches import Launches
    from vyre.app.resident import ResidentArray
    from vyre.app.shadow.state import ShadowState
    from vyre.domain.geometry import LaunchGeometry

Output: TypeAlias = "npt.NDArray[Any]"


class Result(ForeignResultUse):
    """The returned buffers in binding order: ``result["y"]``, ``result[0]``, ``y, z = result``, ``dict(result)``.

    Each is a NumPy array of the buffer's element type (``bool`` and ``bool8`` as ``numpy.bool_``, ``bf16`` as
    ``uint16``) that owns its memory, unless the dispatch was given an ``OutputArena``.  A buffer of kind ``inout`` has
    the shape of the array that was passed; an output with as many elements as a given extent (x, y, z) has lanes has
    the shape (z, y, x), so that an output of 61 * 45 elements has the shape (45, 61) with ``extent=(61, 45)``; an array
    of ``out`` keeps its own; all others have one axis.  Buffers that were bound to resident memory are updated there
    and are not part of the result; ``resident`` maps their names to it.
    """

    __slots__ = ("_arrays", "_launches", "_lengths", "_names", "backend", "resident", "timing")

    def __init__(
        self,
        names: tuple[str, ...],
        arrays: tuple[Output, ...],
        timing: DispatchTiming,
        backend: str,
        launches: Launches,
        lengths: tuple[int, ...],
        resident: dict[str, ResidentArray] | None = None,
    ) -> None:
        self._names = names
        self._arrays = arrays
        self.timing: DispatchTiming = timing
        self.backend: str = backend
        self._launches = launches
        self._lengths = lengths
        self.resident: dict[str, ResidentArray] = resident or {}

    def in_shapes(self, shapes: Mapping[str, tuple[int, ...]]) -> Result:
        """Returns the result with arrays in other shapes, by name, where they have as many elements."""
        if not self._arrays:
            return self
        arrays = [
            array.reshape(shapes[name]) if prod(shapes.get(name, (-1,))) == array.size else array
            for name, array in self.items()
        ]
        return Result(
            self._names, tuple(arrays), self.timing, self.backend, self._launches, self._lengths, self.resident
        )

    def without_last(self) -> Result:
        """Returns the result without its last array."""
        return Result(
            self._names[:-1], self._arrays[:-1], self.timing, self.backend, self._launches, self._lengths, self.resident
        )

    @property
    def shadow(self) -> ShadowState:
        """Whether the dispatch was sampled by the shadow of its session, and what that has found so far."""
        from vyre.app.shadow.state import state_of  # imported on use

        return state_of(self.timing)

    @property
    def launch(self) -> LaunchGeometry:
        """Grid, workgroup and extent of the launch, and the rule that chose the grid; ``print`` it for a sentence."""
        return self._launches.geometry(self._lengths)

    def __getitem__(self, key: str | int) -> Output:
        """Returns the array of that name or position; raises ``UnknownOutput`` (a ``KeyError``) or ``IndexError``."""
        if isinstance(key, str):
            try:
                return self._arrays[self._names.index(key)]
            except ValueError:
                raise self._unknown_output(key) from None
        return self._arrays[key]

    def _unknown_output(self, key: str) -> UnknownOutput:
        from vyre.domain.ir.caller import outside

        known = ", ".join(f"`{name}`" for name in self._names)
        return UnknownOutput(
            f"the result has no output `{key}`",
            fix=f"the outputs are {known}." if known else "bind host arrays to what the program is to return.",
            loc=outside(),
        )

    def __len__(self) -> int:
        return len(self._arrays)

    def __iter__(self) -> Iterator[Output]:
        return iter(self._arrays)

    def keys(self) -> tuple[str, ...]:
        """Returns the names of the returned buffers, in binding order."""
        return self._names

    def items(self) -> tuple[tuple[str, Output], ...]:
        """Returns pairs of name and array, in binding order."""
        return tuple(zip(self._names, self._arrays, strict=True))

    _repr_html_ = as_html

    def __repr__(self) -> str:
        arrays = ", ".join(f"{name}: {array.dtype}[{', '.join(map(str, array.shape))}]" for name, array in self.items())
        return f"<Result {arrays or 'without outputs'} from {self.backend} in {self.timing.wall_ns / 1e6:.3f} ms>"
