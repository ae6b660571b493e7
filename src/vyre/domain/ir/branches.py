"""The bodies of a branching statement of which every lane runs exactly one: those of a ``Switch`` or of an ``if`` with
all links of its ``else if`` chain.
"""

from __future__ import annotations

from typing import NamedTuple

from vyre.domain.ir.stmt import Body, If, Switch, bodies, if_chain


class Branch(NamedTuple):
    """One body.

    ``link`` is the ``if`` of an ``else if``, whose condition is evaluated just before this body, by the lanes that
    took no earlier one; None for other bodies, whose statement evaluates its operand once before all bodies.
    ``number`` increases along the bodies of a statement; ``number - 1`` is free for the link itself.
    """

    body: Body
    number: int
    link: If | None = None


def branches(stmt: If | Switch) -> list[Branch]:
    """Returns the bodies in program order; the last is the ``otherwise`` of the last link, or the default."""
    if isinstance(stmt, Switch):
        return [Branch(body, number) for number, body in enumerate(bodies(stmt))]
    links, otherwise = if_chain(stmt)
    listed = [Branch(stmt.then, 0)]
    listed += [Branch(link.then, 2 * number, link) for number, link in enumerate(links) if number]
    listed.append(Branch(otherwise, 2 * len(links) - 1))
    return listed
