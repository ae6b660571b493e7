"""``Writer``: the text of one LLVM function, written in program order.

A pure instruction whose operands are known outside of the current loops is written before the outermost loop that
does not change them, and an instruction that a dominating block holds already is not written again.  A light
optimisation pipeline then has little left to hoist or to share.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from vyre.policies.journal import DecisionSink

Section: TypeAlias = "list[str | Section]"
"""Lines and nested sections, in the order of the text."""


class _Loop:
    """An open loop: the section that ends its preheader, and the scope around it."""

    __slots__ = ("preheader", "scope")

    def __init__(self, preheader: Section, scope: int) -> None:
        self.preheader: Final = preheader
        self.scope: Final = scope


class Writer:
    """Writes instructions; operands and results are operand texts of LLVM IR, such as ``%7`` or ``42``."""

    def __init__(self) -> None:
        self.entry: Final[Section] = []
        """The start of the entry block: stack slots and whatever every other block may rely on."""
        self.module: Final[dict[str, None]] = {}
        """Lines outside of the function, each once: declarations and constants."""
        body: Section = []
        self._text: Final[Section] = [self.entry, body]
        self._out: Section = body
        self._loops: Final[list[_Loop]] = []
        self._known: Final[dict[str, str]] = {}
        self._scopes: Final[list[list[str]]] = [[]]
        self._levels: Final[dict[str, int]] = {}
        self._count = 0
        self.block: str = "entry"
        """The label of the block that is being written."""
        self.small: str = ""
        """An i64 operand that is always below 2^32, which LLVM cannot know; empty if there is none."""
        self.location: str = ""
        """A suffix of every instruction line, for debug information."""
        self.decisions: DecisionSink | None = None
        """The receiver of decisions about the text."""

    # ---- names
    def name(self, hint: str = "") -> str:
        """Returns a new local name, such as ``%v7``."""
        self._count += 1
        return f"%{hint or 'v'}{self._count}"

    def label(self, hint: str = "b") -> str:
        """Returns a new label, which is not placed yet."""
        self._count += 1
        return f"{hint}{self._count}"

    # ---- instructions
    def pure(self, form: str, *operands: str) -> str:
        """Returns the result of an instruction without effects that is defined for all operands.

        ``form`` is the instruction with ``{}`` for each operand, for example ``"add i32 {}, {}"``.  The result may
        be that of an equal instruction, and the instruction may stand before the loops around the current place.
        """
        text = form.format(*operands)
        earlier = self._known.get(text)
        if earlier is not None:
            return earlier
        levels = self._levels
        level = 0
        for operand in operands:
            own = levels.get(operand, 0)
            if own > level:
                level = own
        result = self.name()
        if level < len(self._loops):
            loop = self._loops[level]
            loop.preheader.append(f"  {result} = {text}{self.location}")
            self._scopes[loop.scope].append(text)
        else:
            self._out.append(f"  {result} = {text}{self.location}")
            self._scopes[-1].append(text)
        self._known[text] = result
        if level:
            levels[result] = level
        return result

    def call(self, result: str, name: str, *arguments: tuple[str, str]) -> str:
        """Returns what an intrinsic function of LLVM without effects gives; ``arguments`` are types and operands."""
        kinds = [kind for kind, _ in arguments]
        self.declare(f"declare {result} @llvm.{name}({', '.join(kinds)})")
        places = ", ".join(f"{kind} {{}}" for kind in kinds)
        return self.pure(f"call {result} @llvm.{name}({places})", *(operand for _, operand in arguments))

    def zero(self) -> str:
        """Returns an i32 operand that is always 0, which LLVM cannot know; a plain 0 where there is no such operand."""
        if not self.small:
            return "0"
        return self.pure("trunc i64 {} to i32", self.pure("lshr i64 {}, 32", self.small))

    def here(self, text: str) -> str:
        """Returns the result of an instruction that belongs to the current place, such as a load."""
        result = self.result()
        self._out.append(f"  {result} = {text}{self.location}")
        return result

    def line(self, text: str) -> None:
        """Writes an instruction without a result at the current place."""
        self._out.append(f"  {text}{self.location}")

    def reserve(self) -> Section:
        """Returns a section at the current place, whose lines are written later."""
        section: Section = []
        self._out.append(section)
        return section

    def result(self) -> str:
        """Returns the name of a result that depends on the open loops, for an instruction that is written later."""
        result = self.name()
        self._levels[result] = len(self._loops)
        return result

    def at_entry(self, text: str) -> str:
        """Returns the result of an instruction at the start of the function, such as a stack slot."""
        result = self.name()
        self.entry.append(f"  {result} = {text}")
        return result

    def level(self, operand: str) -> int:
        """Returns the number of open loops on which an operand depends; it is known before the others."""
        return self._levels.get(operand, 0)

    def known(self, key: str) -> str | None:
        """Returns the result that is kept under a key, None where there is none that dominates the current place."""
        return self._known.get(key)

    def remember_everywhere(self, key: str, result: str) -> None:
        """Keeps the result of something that was written at the start of the function, if nothing is known yet."""
        if self._known.setdefault(key, result) is result:
            self._scopes[0].append(key)

    def remember(self, key: str, result: str) -> None:
        """Keeps a result under a key that has none, until the end of the current scope."""
        self._known[key] = result
        self._scopes[-1].append(key)

    def declare(self, line: str) -> None:
        """Adds a line outside of the function, once."""
        self.module[line] = None

    # ---- blocks
    def place(self, label: str) -> None:
        """Starts the block ``label``."""
        self._out.append(f"{label}:")
        self.block = label

    def jump(self, label: str) -> None:
        """Ends the block with a jump."""
        self.line(f"br label %{label}")

    def branch(self, condition: str, on_true: str, on_false: str, *, likely: bool | None = None) -> None:
        """Ends the block with a branch on an ``i1``; ``likely`` says which way it usually goes, if that is known."""
        weights = ""
        if likely is not None:
            number = 1 if likely else 2
            self.declare(
                f'!{number} = !{{!"branch_weights", i32 {1000 if likely else 1}, i32 {1 if likely else 1000}}}'
            )
            weights = f", !prof !{number}"
        self._out.append(f"  br i1 {condition}, label %{on_true}, label %{on_false}{weights}{self.location}")

    # ---- structure
    def open_scope(self) -> None:
        """Begins code that does not dominate what follows its end: the body of a branch or of a loop."""
        self._scopes.append([])

    def close_scope(self) -> None:
        """Ends the scope that was opened last."""
        for key in self._scopes.pop():
            del self._known[key]

    def open_loop(self, head: str) -> None:
        """Ends the current block with a jump to a loop and starts its first block, ``head``.

        Instructions that the loop does not change will stand before the jump.
        """
        self._loops.append(_Loop(self.reserve(), len(self._scopes) - 1))
        self.jump(head)
        self.open_scope()
        self.place(head)

    def close_loop(self, after: str = "") -> None:
        """Ends a loop, whose last block must be complete, and starts the block ``after`` it, if one is given."""
        self.close_scope()
        self._loops.pop()
        if after:
            self.place(after)

    @property
    def depth(self) -> int:
        """Returns the number of open loops."""
        return len(self._loops)

    def text(self) -> str:
        """Returns the lines of the function's body."""
        return "\n".join(_flat(self._text))


def _flat(section: Section) -> Iterator[str]:
    stack: list[Iterator[str | Section]] = [iter(section)]
    while stack:
        for item in stack[-1]:
            if isinstance(item, str):
                yield item
            else:
                stack.append(iter(item))
                break
        else:
            stack.pop()
