"""Small pieces of control flow within a statement, blocks where several ways meet, and vectors whose lanes are visited
one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from vyre.adapters.cpu.llvm.context import Flow, Kernel


def either(k: Kernel, condition: str, kind: str, usual: Callable[[], str], rare: Callable[[], str]) -> str:
    """Returns the result, of the LLVM type ``kind``, of one of two pieces of code; ``condition`` is usually true."""
    return either_each(k, condition, [kind], lambda: (usual(),), lambda: (rare(),))[0]


def either_each(
    k: Kernel,
    condition: str,
    kinds: Sequence[str],
    usual: Callable[[], tuple[str, ...]],
    rare: Callable[[], tuple[str, ...]],
) -> tuple[str, ...]:
    """Returns the results, of the LLVM types ``kinds``, of one of two pieces of code, as ``either`` does."""
    w = k.w
    on_true, on_false, end = w.label("usual"), w.label("rare"), w.label("end")
    w.branch(condition, on_true, on_false, likely=True)
    ways: list[tuple[tuple[str, ...], str]] = []
    for label, write in ((on_true, usual), (on_false, rare)):
        w.place(label)
        w.open_scope()
        results = write()
        w.close_scope()
        ways.append((results, w.block))
        w.jump(end)
    w.place(end)
    return tuple(
        w.here(f"phi {kind} {', '.join(f'[ {results[number]}, %{block} ]' for results, block in ways)}")
        for number, kind in enumerate(kinds)
    )


def branch(k: Kernel, condition: str, usual: Callable[[], object], rare: Callable[[], object] | None = None) -> None:
    """Runs one of two pieces of code; ``condition`` is usually true."""
    w = k.w
    end = w.label("end")
    on_true, on_false = w.label("usual"), w.label("rare") if rare is not None else end
    w.branch(condition, on_true, on_false, likely=True)
    for label, write in ((on_true, usual), (on_false, rare)):
        if write is not None:
            w.place(label)
            w.open_scope()
            write()
            w.close_scope()
            w.jump(end)
    w.place(end)


def lane_count(k: Kernel, mask: str) -> str:
    """Returns the number of lanes of a mask, an i32 operand."""
    return k.w.call("i32", "ctpop.i32", ("i32", k.word_of(mask)))


def for_each_lane(k: Kernel, mask: str, write: Callable[[str], None]) -> None:
    """Runs a piece of code for every lane of a mask, ascending; it gets the number of the lane, an i32 operand."""
    w, bits = k.w, k.word_of(mask)
    head, body, end = w.label("lanes"), w.label("lane"), w.label("end")
    before, rest, last = w.block, w.name("rest"), w.label("last")
    w.open_loop(head)
    left = w.here(f"phi i32 [ {bits}, %{before} ], [ {rest}, %{last} ]")
    w.branch(w.pure("icmp ne i32 {}, 0", left), body, end)
    w.place(body)
    w.open_scope()
    write(w.call("i32", "cttz.i32", ("i32", left), ("i1", "true")))
    w.jump(last)
    w.close_scope()
    w.place(last)
    w.line(f"{rest} = and i32 {left}, {w.pure('add i32 {}, -1', left)}")
    w.jump(head)
    w.close_loop(end)


class Spilled:
    """A vector in memory of the function, of which lanes can be read and written by number."""

    def __init__(self, k: Kernel, purpose: str, element: str, operand: str) -> None:
        """Writes the vector to the place that the function has for this purpose and type."""
        self._k = k
        self._element = element
        self._vector = k.vector_type(element)
        self._address = _slot(k, purpose, self._vector)
        k.w.line(f"store {self._vector} {operand}, ptr {self._address}")

    def lane(self, number: str) -> str:
        """Returns the element of a lane."""
        return self._k.w.here(f"load {self._element}, ptr {self._place(number)}")

    def put(self, number: str, operand: str) -> None:
        """Replaces the element of a lane."""
        self._k.w.line(f"store {self._element} {operand}, ptr {self._place(number)}")

    def vector(self) -> str:
        """Returns all lanes."""
        return self._k.w.here(f"load {self._vector}, ptr {self._address}")

    def _place(self, number: str) -> str:
        return self._k.w.pure(f"getelementptr {self._element}, ptr {self._address}, i32 {{}}", number)


def each_word(k: Kernel, operand: str) -> list[str]:
    """Returns the lanes of a vector of i32 as zero-extended i64 operands.

    Two lanes leave the vector register in one move, which takes half as many steps of the processor as one by one.
    """
    w, pairs = k.w, f"<{k.lanes // 2} x i64>"
    both = w.pure(f"bitcast {k.vector_type('i32')} {{}} to {pairs}", operand)
    words: list[str] = []
    for pair in range(k.lanes // 2):
        word = w.pure(f"extractelement {pairs} {{}}, i32 {pair}", both)
        words += [w.pure("and i64 {}, 4294967295", word), w.pure("lshr i64 {}, 32", word)]
    return words


def _slot(k: Kernel, purpose: str, vector: str) -> str:
    key = f"{purpose} in {vector}"
    address = k.w.known(key)
    if address is None:
        address = k.w.at_entry(f"alloca {vector}")
        k.w.remember_everywhere(key, address)
    return address


def intrinsic(k: Kernel, result: str, name: str, *parameters: str) -> str:
    """Declares an intrinsic function of LLVM and returns the start of a call, up to the list of arguments."""
    k.w.declare(f"declare {result} @llvm.{name}({', '.join(parameters)})")
    return f"call {result} @llvm.{name}"


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
