"""The use of the optimizer by backends: which passes a program gets, and the program that code is made of."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

from vyre.adapters.kernel_source import KernelSource, Steps
from vyre.domain.device import EngineKind
from vyre.domain.ir.bake import with_constants
from vyre.domain.ir.node_facts import node_facts
from vyre.domain.ir.program import Program
from vyre.domain.optimize.dialect_laws import checked_laws, digest_of, stated_laws
from vyre.policies.journal import DecisionSink, decide
from vyre.policies.optimizing.program_passes import PassInputs, choose_passes

if TYPE_CHECKING:
    from vyre.domain.dispatch import DispatchConfig
    from vyre.domain.ir.expr import Literal
    from vyre.domain.optimize.passes import Optimized
    from vyre.ports.device_passes import DevicePassesOf

SEPARATOR: Final = " "
LAW_PASS: Final = "saturation"
WITH_LAWS: Final = ":"
"""The separator between the version of the pass that rewrites by laws, and the digest of the laws of dialects."""
_CACHED: Final = "optimized"


def passes_for(
    program: Program, config: DispatchConfig, engine: EngineKind, wanted: bool, sink: DecisionSink | None, runs: int = 0
) -> str:
    """Returns the passes that prepare a program under a config, such as ``copies/1 folding/1``; empty for none.

    The text is part of the keys of executable code, so that code of other passes, or of another version of one, is
    never taken for it.  Behind the version of the pass that rewrites by laws stands the digest of those of dialects, as
    in ``saturation/4:1f0c``; they are checked where that pass is taken.  ``wanted`` is what the session says, ``sink``
    receives the decision, and ``runs`` counts the runs of the program so far.
    """
    inputs = PassInputs(
        engine=engine,
        nodes=node_facts(program).nodes,
        runs=runs,
        wanted=wanted and config.optimize,
        counts_steps=config.step_budget is not None,
        checks_races=config.race_check,
        laws=len(stated_laws(program)),
    )
    names = decide(sink, choose_passes, inputs).names
    if not inputs.laws:
        return SEPARATOR.join(names)
    return SEPARATOR.join(
        [f"{name}{_suffix(program)}" if name.partition("/")[0] == LAW_PASS else name for name in names]
    )


def _suffix(program: Program) -> str:
    laws = checked_laws(program)
    return f"{WITH_LAWS}{digest_of(laws)}" if laws else ""


def optimized(
    program: Program, literals: Mapping[str, Literal], passes: str, device_passes: DevicePassesOf | None = None
) -> Optimized:
    """Returns a valid program after the passes of a text that ``passes_for`` returned, with its constants fixed.

    ``device_passes`` has the passes that run on a device.  For no passes it is the very program.  The last result
    is kept on the program, for several variants of its code.  A pass of the text with the digest of laws rewrites by
    those that are kept with the program.
    """
    from vyre.domain.optimize.passes import Optimized, run_passes

    if not passes:
        return Optimized(program, ())
    from vyre.domain.optimize.pass_list import PASSES  # on use: a process that finds stored code optimizes nothing

    wanted = (passes, tuple(sorted((name, value.dtype, value.bits) for name, value in literals.items())))
    kept = program._cache.get(_CACHED)
    if isinstance(kept, tuple) and kept[0] == wanted and isinstance(kept[1], Optimized):
        return kept[1]
    fixed = with_constants(program, literals)
    known = PASSES if device_passes is None else {**PASSES, **device_passes()}
    steps = [known[step.partition("/")[0]] for step in passes.split(SEPARATOR)]
    if WITH_LAWS in passes:
        from vyre.domain.optimize.saturation import with_laws

        by_laws = with_laws(checked_laws(program))
        steps = [
            by_laws if WITH_LAWS in text else step for text, step in zip(passes.split(SEPARATOR), steps, strict=True)
        ]
    result = run_passes(fixed, steps)
    program._cache[_CACHED] = (wanted, result)
    return result


def prepared(
    source: KernelSource,
    passes: str,
    steps: Steps | None = None,
    device_passes: DevicePassesOf | None = None,
    *,
    counting: bool = False,
) -> Program:
    """Returns the program that code is made of: as it is written for no passes, else optimized, timed by ``steps``.

    What may end a lane has sites in it; ``counting``: also loops, because their rounds are counted.
    """
    from vyre.domain.sites import with_sites  # on use: a process that finds stored code emits none

    program = with_sites(source.sized, source.program, loops=counting)
    if not passes:
        return program
    with steps.step("optimize") if steps is not None else nullcontext():
        return optimized(program, source.literals, passes, device_passes).program
