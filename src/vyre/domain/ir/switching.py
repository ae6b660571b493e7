"""``SwitchArms``: the arms of a ``p.switch`` block."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

from vyre.domain.ir.caller import caller_location, fail, located
from vyre.domain.ir.expr import Expr, Literal
from vyre.domain.ir.foreign_use import ForeignSwitchUse
from vyre.domain.ir.recorder import BlockContext, Frame, Recorder
from vyre.domain.ir.stmt import Arm, Body, Switch
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.value import Operand, Value, typed
from vyre.domain.source_location import SourceLocation

_BETWEEN_ARMS: Final = (
    "a statement is recorded between the arms of a p.switch block",
    "write it inside `with s.case(...):` or `with s.default():`, or before the p.switch.",
)


class SwitchArms(ForeignSwitchUse):
    """The arms of a switch: ``with s.case(1, 2):`` and, after all of them, ``with s.default():``.

    A lane runs the arm with its value of the selector among the labels, else the default.  No lane falls through to
    the next arm, and ``p.break_()`` leaves the loop around the switch.
    """

    __slots__ = ("_arms", "_default", "_dtype", "_frame", "_labels", "_loc", "_recorder", "_selector")

    def __init__(self, recorder: Recorder, selector: Expr, dtype: ScalarType) -> None:
        self._recorder = recorder
        self._selector = selector
        self._dtype = dtype
        self._loc = caller_location()
        self._arms: list[Arm] = []
        self._labels: dict[int, SourceLocation] = {}
        self._default: Body | None = None
        self._frame: Frame | None = None

    @located
    def case(self, *labels: Operand, loc: SourceLocation | None = None) -> AbstractContextManager[None]:
        """Opens the arm for some values of the selector: numbers or literals of its type, each in one arm only."""
        place = caller_location()
        self._check_open("s.case")
        if not labels:
            fail("s.case() has no label", "give it the values that it is for: s.case(1, 2).")
        values = tuple(self._label(label, place) for label in labels)

        def finish(body: Body) -> None:
            self._arms.append(Arm(values, body, loc=place))

        return self._arm("s.case", finish)

    @located
    def default(self, *, loc: SourceLocation | None = None) -> AbstractContextManager[None]:
        """Opens the arm for all values that no other arm has; it comes last."""
        self._check_open("s.default")

        def finish(body: Body) -> None:
            self._default = body

        return self._arm("s.default", finish)

    def _opened(self) -> SwitchArms:
        """Returns the arms when the block of the switch is entered."""
        self._frame = self._recorder.frames[-1]
        return self

    def _closed(self, _: Body) -> Switch:
        """Returns the statement when the block of the switch ends."""
        self._frame = None
        return Switch(self._selector, tuple(self._arms), self._default or (), loc=self._loc)

    def _check_open(self, what: str) -> None:
        self._recorder.check_entered()
        if self._frame is None:
            fail(f"{what}(...) is used outside its p.switch block", "write it inside `with p.switch(x) as s:`.")
        if self._recorder.frames[-1] is not self._frame:
            fail(f"{what}(...) is used inside another block", "write it directly inside `with p.switch(x) as s:`.")
        if self._default is not None:
            fail(f"{what}(...) follows s.default()", "write s.default() last, and once.")

    def _label(self, operand: Operand, loc: SourceLocation) -> Literal:
        label = typed(operand, self._dtype, "a label of a p.switch").expr
        if not isinstance(label, Literal):
            fail("a label of a p.switch is no constant", "give numbers; compare other values with p.if_ and p.elif_.")
        if (earlier := self._labels.get(label.bits)) is not None:
            fail(f"the label {label.value} stands in the switch twice, first at {earlier}", "give it to one arm.")
        self._labels[label.bits] = loc
        return label

    def _arm(self, what: str, finish: Callable[[Body], None]) -> AbstractContextManager[None]:
        return self._recorder.announce(BlockContext(self._recorder, what, lambda: None, finish))


def switch_block(recorder: Recorder, selector: Value) -> BlockContext[SwitchArms]:
    """Returns the block of a switch over an integer."""
    arms = SwitchArms(recorder, recorder.consume(selector), selector.dtype)
    return BlockContext(recorder, "p.switch", arms._opened, arms._closed, is_scope=False, refusal=_BETWEEN_ARMS)
