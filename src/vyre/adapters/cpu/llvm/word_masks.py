"""``WordMasks``: masks of lanes that a loop keeps as words of 32 bits.

Processors without mask registers compare vectors of words to words of ones and zeros, and choose by them.  LLVM gives a
vector of i1 that passes from block to block the fewest bits that such a processor can hold, bytes mostly, and every
round of a loop then packs and unpacks masks.  In loops that lanes leave one by one, masks are therefore made from words
that LLVM cannot know to be made from an i1.
"""

from __future__ import annotations

from typing import Final

from vyre.adapters.cpu.llvm.writer import Writer

_TESTED: Final = 8
"""The words that one instruction can test: those of a register of 256 bits."""


class WordMasks:
    """The words of masks; a mask is an operand of type <W x i1>, its words are one of type <W x i32>, 0 or -1 each.

    Unless ``wanted``, no mask has words, and the instructions are those on i1.  The mask of one lane is an i1.

    It is also known here of some masks that they have a lane, or that they lack one, whatever the data are.
    """

    __slots__ = ("_all", "_having", "_known", "_lacking", "_lanes", "_mask", "_w", "_words", "loops", "wanted")

    def __init__(self, w: Writer, lanes: int, *, wanted: bool) -> None:
        self._w: Final = w
        self._lanes: Final = lanes
        self._mask: Final = f"<{lanes} x i1>" if lanes > 1 else "i1"
        self._all: Final = "splat (i1 true)" if lanes > 1 else "true"
        self._words: Final = f"<{lanes} x i32>"
        self._known: Final[dict[str, str]] = {}
        self._having: Final[set[str]] = set()
        self._lacking: Final[set[str]] = set()
        self.wanted: Final = wanted
        self.loops: int = 0
        """The number of loops around the current place that lanes leave one by one."""

    @property
    def place(self) -> str:
        """Returns the type of memory for a mask that is live in a loop."""
        return self._words if self.wanted else self._mask

    def load(self, place: str) -> str:
        """Returns the mask in such memory."""
        mask = self._w.here(f"load {self.place}, ptr {place}")
        return self._named(mask) if self.wanted else mask

    def store(self, mask: str, place: str) -> None:
        """Keeps a mask in such memory."""
        self._w.line(f"store {self.place} {self._of(mask) if self.wanted else mask}, ptr {place}")

    def note_unequal(self, mask: str, *, equal: bool) -> None:
        """Notes that in some lane, whatever the data are, two numbers differ.

        The mask is that of the lanes whose numbers are ``equal``, or of those whose numbers differ.
        """
        (self._lacking if equal else self._having).add(mask)

    def lacks_lane(self, mask: str) -> bool:
        """Returns whether it is known that a mask is never that of all lanes."""
        return mask in self._lacking

    def held(self, mask: str) -> str:
        """Returns a mask with the same lanes, which has words where the current loop keeps masks as words."""
        if not self.wanted or not self.loops or mask in self._known or not mask.startswith("%"):
            return mask
        words = self._named(self._of(mask))
        for masks in (self._having, self._lacking):
            if mask in masks:
                masks.add(words)
        return words

    def combined(self, op: str, one: str, other: str) -> str:
        """Returns ``and``, ``or`` or ``xor`` of two masks; it has words if both have."""
        a, b = self._known.get(one), self._known.get(other)
        if a is None or b is None:
            combined = self._w.pure(f"{op} {self._mask} {{}}, {{}}", one, other)
        else:
            combined = self._named(self._w.pure(f"{op} {self._words} {{}}, {{}}", a, b))
        kept = {"and": self._lacking, "or": self._having}.get(op)
        if kept is not None and (one in kept or other in kept):
            kept.add(combined)
        return combined

    def inverse(self, mask: str) -> str:
        """Returns the mask of the other lanes."""
        words = self._known.get(mask)
        if words is None:
            inverse = self._w.pure(f"xor {self._mask} {{}}, {self._all}", mask)
        else:
            inverse = self._named(self._w.pure(f"xor {self._words} {{}}, splat (i32 -1)", words))
        if mask in self._having:
            self._lacking.add(inverse)
        if mask in self._lacking:
            self._having.add(inverse)
        return inverse

    def any(self, mask: str) -> str:
        """Returns an i1 that is true if a lane is active."""
        words, lanes = self._known.get(mask), self._lanes
        if lanes == 1:
            return mask
        if words is not None:
            while lanes > _TESTED:
                halves = (self._part(words, lanes, 0), self._part(words, lanes, lanes // 2))
                lanes //= 2
                words = self._w.pure(f"or <{lanes} x i32> {{}}, {{}}", *halves)
            mask = self._w.pure(f"icmp slt <{lanes} x i32> {{}}, zeroinitializer", words)
        bits = self._w.pure(f"bitcast <{lanes} x i1> {{}} to i{lanes}", mask)
        return self._w.pure(f"icmp ne i{lanes} {{}}, 0", bits)

    def _part(self, words: str, lanes: int, first: int) -> str:
        """Returns one half of a vector of words."""
        kind = f"<{lanes} x i32>"
        order = ", ".join(f"i32 {number}" for number in range(first, first + lanes // 2))
        return self._w.pure(f"shufflevector {kind} {{}}, {kind} poison, <{lanes // 2} x i32> <{order}>", words)

    def _of(self, mask: str) -> str:
        """Returns the words of a mask."""
        words = self._known.get(mask)
        if words is not None:
            return words
        floats = f"<{self._lanes} x float>"
        extended = self._w.pure(f"sext {self._mask} {{}} to {self._words}", mask)
        plain = self._w.pure(f"bitcast {self._words} {{}} to {floats}", extended)
        hidden = self._w.call(floats, f"arithmetic.fence.v{self._lanes}f32", (floats, plain))
        return self._w.pure(f"bitcast {floats} {{}} to {self._words}", hidden)

    def _named(self, words: str) -> str:
        mask = self._w.pure(f"icmp slt {self._words} {{}}, zeroinitializer", words)
        self._known[mask] = words
        return mask
