"""Which passes of the optimizer prepare a program for an engine, and in which order?

Units: ns, nodes, runs.  Rule: a program is expected to run as often again as it has run so far, so that about as much
is lost by waiting as by optimizing what never runs again.  A pass is taken if what it saves in these runs,
by its measured savings for each node, exceeds its own measured time for as many nodes; the passes taken run
in the order of the table.  Nothing is optimized where the program must run as it is written: if the caller says so, if
steps are counted against a budget, and if races are looked for.  The table is pinned: it was made from measurements of
programs that another compiler lowered (``benchmarks/results/optimizer.json``), and no clock is asked when a program
runs.  Compilers of machine code find by themselves most of what the passes find, so that no pass pays for them.
A pass that needs laws of dialects is taken only for programs that called operations with such laws, and its time
includes that of checking each law (``benchmarks/results/dialect-laws.json``).  O(passes).

vyre-driver ranks passes by the sum of their thresholds, which favours those that are rarely useful, and multiplies
their expected speed-ups.  Here each pass is judged by the time that it is measured to save.
"""

from __future__ import annotations

from typing import Final

from vyre.domain.device import EngineKind
from vyre.policies.record import Count, Nanoseconds, Reason, record, verdict, why_field


@record
class PassGain:
    """A pass on one kind of engine.

    - ``name``: the pass and its version, such as ``folding/1``.
    - ``cost_ns``: its time for each node of the program.
    - ``run_ns``: the time that it saves for each node in each run.
    - ``law_ns``: the time for checking a law of a dialect; 0 for a pass that needs no such laws.
    """

    name: str
    cost_ns: Nanoseconds
    run_ns: Nanoseconds
    law_ns: Nanoseconds = 0


@record
class PassInputs:
    """A program that is about to be compiled.

    - ``engine``: what runs it.
    - ``nodes``: the number of its nodes.
    - ``runs``: how often it has run so far.
    - ``wanted``: whether the caller allows the optimizer.
    - ``counts_steps``: whether loop back-edges are counted against a budget.
    - ``checks_races``: whether data races are looked for.
    - ``laws``: how many laws dialects state of the operations that it called.
    """

    engine: EngineKind
    nodes: Count
    runs: Count = 0
    wanted: bool = True
    counts_steps: bool = False
    checks_races: bool = False
    laws: Count = 0


@record
class PassTables:
    """The measured gains of each kind of engine, in the order in which the passes run."""

    interpreter: tuple[PassGain, ...] = ()
    native: tuple[PassGain, ...] = ()
    device: tuple[PassGain, ...] = ()


@verdict
class ProgramPasses:
    """The passes that prepare a program with their versions, in order; none if it runs as it is written."""

    names: tuple[str, ...]
    why: Reason = why_field()

    @property
    def label(self) -> str:
        """Whether the program is optimized, for telemetry."""
        return "optimized" if self.names else "as written"


MEASURED: Final = PassTables(
    interpreter=(
        PassGain("narrowing/1", 4_700, 1_100),
        PassGain("inlining/2", 3_800, 450),
        PassGain("saturation/4", 190_000, 200, law_ns=100_000_000),
        PassGain("dead_code/1", 2_300, 350),
    )
)
"""Costs include a share of making the code anew."""


def choose_passes(inputs: PassInputs, tables: PassTables = MEASURED) -> ProgramPasses:
    """Returns the passes for a program, and why."""
    if not inputs.wanted:
        return ProgramPasses((), Reason("the caller asked for the program as it is written"))
    if inputs.checks_races:
        return ProgramPasses((), Reason("races are looked for in the program as it is written"))
    if inputs.counts_steps:
        return ProgramPasses((), Reason("steps are counted in the program as it is written"))
    table: tuple[PassGain, ...] = getattr(tables, inputs.engine.value)
    taken = [gain for gain in table if _is_worthwhile(gain, inputs)]
    names = tuple(gain.name for gain in taken)
    if not names:
        text = "after {} runs no pass saves more time than it takes on an engine of kind {}"
        return ProgramPasses((), Reason(text, (inputs.runs, inputs.engine.value)))
    spent = sum(_cost_ns(gain, inputs) for gain in taken)
    saved = sum(gain.run_ns for gain in taken) * inputs.runs * inputs.nodes
    text = "{} passes take {} ns for {} nodes and save {} ns in as many runs as the {} so far"
    values = (len(names), spent, inputs.nodes, saved, inputs.runs)
    if any(gain.law_ns for gain in taken):
        return ProgramPasses(names, Reason(f"{text}, with {{}} laws of dialects checked", (*values, inputs.laws)))
    return ProgramPasses(names, Reason(text, values))


def _is_worthwhile(gain: PassGain, inputs: PassInputs) -> bool:
    """Returns whether a pass saves more than it takes; one that needs laws does nothing without them."""
    if gain.law_ns and not inputs.laws:
        return False
    return gain.run_ns * inputs.runs * inputs.nodes > _cost_ns(gain, inputs)


def _cost_ns(gain: PassGain, inputs: PassInputs) -> int:
    return gain.cost_ns * inputs.nodes + gain.law_ns * inputs.laws
