"""``Join``: a block at which several ways meet, and the lanes that arrive there."""

from __future__ import annotations

from typing import Final

from vyre.adapters.cpu.llvm.context import Flow, Kernel

NO_LANES: Final = "zeroinitializer"
"""The mask without an active lane."""


class Join:
    """A block that ways arrive at, each with its mask."""

    __slots__ = ("_k", "_ways", "label")

    def __init__(self, k: Kernel, hint: str) -> None:
        self._k: Final = k
        self.label: Final = k.w.label(hint)
        self._ways: Final[list[tuple[str, str]]] = []

    def arrive(self, flow: Flow = Flow.THROUGH) -> None:
        """Ends the current block with a jump here, with the current mask or, after ``ENDED``, with no lane."""
        if flow is Flow.LEFT:
            return
        self.expect(self._k.lane_mask() if flow is not Flow.ENDED else NO_LANES)
        self._k.w.jump(self.label)

    def expect(self, mask: str, block: str = "") -> None:
        """Notes that a block, the current one if none is named, jumps here, with a mask."""
        self._ways.append((mask, block or self._k.w.block))

    def finish(self) -> Flow:
        """Starts the block; the current mask becomes that of the way which was taken.

        The result is ``LEFT`` if no way arrives, ``ENDED`` if none brings a lane, and ``THROUGH`` otherwise: the caller
        knows whether the mask is less than it was.
        """
        k, ways = self._k, self._ways
        if not ways:
            return Flow.LEFT
        k.w.place(self.label)
        masks = {mask for mask, _ in ways}
        if len(masks) == 1:
            mask = masks.pop()
        else:
            text = ", ".join(f"[ {mask}, %{block} ]" for mask, block in ways)
            mask = k.w.here(f"phi {k.vector_type('i1')} {text}")
        k.mask = None if mask == k.all_lanes else mask
        return Flow.ENDED if mask == NO_LANES else Flow.THROUGH
