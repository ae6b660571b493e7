"""``IfChain``: the finished links of an ``if`` whose ``else`` may still follow."""

from __future__ import annotations

from typing import NamedTuple

from vyre.domain.ir.expr import Expr
from vyre.domain.ir.stmt import Body, If
from vyre.domain.source_location import SourceLocation


class Link(NamedTuple):
    """One condition of a chain with its body; ``loc`` is the position of the condition."""

    condition: Expr
    body: Body
    loc: SourceLocation | None


class IfChain:
    """The links of a chain ``if``, ``else if``, ..., which becomes nested ``If`` statements when it has ended.

    The links are kept in a list, so that a chain of n links takes n steps to build.
    """

    __slots__ = ("links",)

    def __init__(self, first: Link) -> None:
        self.links: list[Link] = [first]

    def statement(self, otherwise: Body = ()) -> If:
        """Returns the statement of the whole chain with the body ``otherwise`` for what no condition takes."""
        for condition, body, loc in reversed(self.links[1:]):
            otherwise = (If(condition, body, otherwise, loc=loc),)
        condition, body, loc = self.links[0]
        return If(condition, body, otherwise, loc=loc)
