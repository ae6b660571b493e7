"""``Line``: the lines of the matrix that holds a program's nodes while they are folded, one column for each node."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class Line(IntEnum):
    """A line of ``nodes``.

    ``A``, ``B`` and ``C`` are operands, ``NONE`` where there are fewer; ``COUNT`` is the number of elements of the
    buffer that a node names, 0 if it is open.  The others begin as zeros, and ``BECOMES`` as the node itself.
    """

    KIND = 0
    TAG = 1
    TYPE = 2
    """The tag of the type of its value."""
    A = 3
    B = 4
    C = 5
    NAME = 6
    COUNT = 7
    BECOMES = 8
    """The node that stands for it."""
    IMPURE = 9
    """1 for an atomic, a subgroup operation, and what contains one."""
    FOLDED = 10
    SIMPLIFIED = 11
    """The number that the pass counts for the node."""
    TODO = 12
    """The form in which ``evaluation`` computes the node; 0: it does not."""


LINES: Final = len(Line)
