"""``Pass``: one step of the optimizer, and ``run_passes``, which runs several in order and counts what they did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from vyre.domain.dialects.expansion import expanded
from vyre.domain.ir.collector import collector_paused
from vyre.domain.ir.node_facts import node_facts
from vyre.domain.ir.program import Program

Counts: TypeAlias = Counter[str]
"""The changes of a pass, by the name of the change: ``{"folded": 3}``."""
PassFunction: TypeAlias = Callable[[Program, Counts], Program]
"""From a valid program without calls to one with the same bytes and errors for all inputs; adds to the counts.  It
returns the very program if it changes nothing.
"""
UNSUPPORTED: Final = "unsupported"
"""The count of a pass that would need a type or an operator which the target lacks, and the program does not need."""


class Pass(NamedTuple):
    """A step of the optimizer.

    ``version`` grows with every change of what the pass makes, and is part of the keys of stored code.
    """

    name: str
    version: int
    run: PassFunction

    def __str__(self) -> str:
        return f"{self.name}/{self.version}"


class PassResult(NamedTuple):
    """The result of one pass: the numbers of nodes before and after it, and its counts."""

    name: str
    nodes_before: int
    nodes_after: int
    counts: Mapping[str, int]

    def __str__(self) -> str:
        """Returns one line: the nodes before and after the pass, and what it changed."""
        changes = ", ".join(f"{name} {count}" for name, count in sorted(self.counts.items())) or "nothing changed"
        return f"{self.name}: {self.nodes_before} -> {self.nodes_after} nodes; {changes}"


class Optimized(NamedTuple):
    """An optimized program, and what each pass did, in order."""

    program: Program
    results: tuple[PassResult, ...]


def _nothing(program: Program) -> frozenset[str]:
    return frozenset()


@collector_paused()
def run_passes(
    program: Program, passes: Iterable[Pass], lacking: Callable[[Program], frozenset[str]] = _nothing
) -> Optimized:
    """Returns the program after these passes, in their order; calls of defined operations are expanded before.

    ``lacking`` returns the types and operators of a program that its target lacks: a pass that would add one is left
    out, and counted as ``UNSUPPORTED``.  ``program`` must be valid.  Raises ``InvalidProgram`` as ``expanded`` does.
    """
    results = []
    program = expanded(program)
    before, lacked = node_facts(program).nodes, lacking(program)
    for step in passes:
        counts: Counts = Counter()
        changed = step.run(program, counts)
        if lacking(changed) <= lacked:
            program = changed
        else:
            counts = Counter({UNSUPPORTED: 1})
        after = node_facts(program).nodes
        results.append(PassResult(step.name, before, after, dict(counts)))
        before = after
    return Optimized(program, tuple(results))
