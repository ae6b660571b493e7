"""The service behind ``Session.explain``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

from vyre.app.explain.explanation import Explanation, Question, explain
from vyre.app.verdicts import valid_with_registered
from vyre.domain.binding import plan_bindings
from vyre.domain.errors import InvalidConfig
from vyre.domain.launch_costs import ASSUMED, LaunchCosts, Measured, Provenance
from vyre.domain.printable import shown

if TYPE_CHECKING:
    from vyre.app.calibration.service import KnownCosts
    from vyre.app.dialects.lowered import LoweredProgram
    from vyre.app.pipeline import Inputs, Pipeline
    from vyre.domain.dispatch import DispatchConfig
    from vyre.domain.ir.program import Program
    from vyre.policies.journal import DecisionSink
    from vyre.ports.backend import Backend

CostsWanted: TypeAlias = "LaunchCosts | Path | str | None"
"""Costs, the file that holds them, ``"measured"``, ``"assumed"``, or None for the best known ones."""
ASSUMED_COSTS: Final = "assumed"
MEASURED_COSTS: Final = "measured"


class Asked(NamedTuple):
    """The arguments of ``Session.explain``.

    ``pipeline`` compiles the program.  ``optimize``: whether the session allows the optimizer.  ``lowered`` replaces
    the calls of the program.
    """

    program: Program
    pipeline: Callable[[], Pipeline]
    inputs: Inputs | None
    batch: int
    repeats: int
    kernel_time_ns: int | None
    optimize: bool = True
    lowered: Callable[[Program, DispatchConfig], LoweredProgram] | None = None


class Known(NamedTuple):
    """Costs, with a short description of their origin."""

    costs: LaunchCosts
    why: str


class CostsOf(Protocol):
    """The type of ``Session.launch_costs``."""

    def __call__(self, path: Path | str | None = None, /, *, assume: bool = True) -> KnownCosts: ...


def known_costs(wanted: CostsWanted, costs_of: CostsOf) -> Known:
    """Returns the requested costs.

    Raises ``InvalidConfig``, and what ``costs_of`` raises unless ``wanted`` is None.
    """
    if isinstance(wanted, LaunchCosts):
        return Known(wanted, "given by the caller")
    if wanted is None:
        return _filled(costs_of())
    if not isinstance(wanted, str | Path):
        raise InvalidConfig(f"costs={shown(wanted)}", fix='pass costs, a path, "measured", "assumed" or None.')
    if wanted == ASSUMED_COSTS:
        return Known(ASSUMED, "assumed, as asked for")
    costs = costs_of(None if wanted == MEASURED_COSTS else wanted, assume=False)
    return Known(costs.costs, costs.why)


def _filled(costs: KnownCosts) -> Known:
    """Replaces unknown costs by assumed ones, so that every mode gets a price, though an assumed one."""
    measured = costs.costs.known()
    missing: dict[str, Any] = {name: cost for name, cost in ASSUMED.known().items() if name not in measured}
    if not missing:
        return Known(costs.costs, costs.why)
    return Known(
        replace(costs.costs, **missing), f"{costs.why}; {len(missing)} costs that were not measured are assumed"
    )


class Lengths(NamedTuple):
    """The bytes of each input, under a config that leaves nothing open.  ``assumed``: the lengths that were assumed, as
    text.
    """

    input_nbytes: tuple[int, ...]
    config: DispatchConfig
    assumed: str = ""


def explain_program(backend: Backend, asked: Asked, known: Known, sink: DecisionSink | None) -> Explanation:
    """Explains the program.

    Raises ``InvalidProgram``, ``InvalidField``, and what a compilation and a dispatch of ``inputs`` raise before
    anything is launched.
    """
    program = valid_with_registered(asked.program)
    pipeline = asked.pipeline()
    lengths = assumed_lengths(pipeline) if asked.inputs is None else _lengths(pipeline, asked.inputs)
    question = Question(
        pipeline.program,
        lengths.config,
        lengths.input_nbytes,
        asked.batch,
        asked.repeats,
        _kernel(asked, pipeline, known.costs),
        known.costs,
        known.why,
        asked.optimize,
    )
    explanation = explain(backend, question, sink)
    if asked.lowered is not None:
        explanation = replace(explanation, lowerings=asked.lowered(program, pipeline.config).choices)
    return replace(explanation, notes=(*explanation.notes, lengths.assumed)) if lengths.assumed else explanation


def assumed_lengths(pipeline: Pipeline) -> Lengths:
    """Returns lengths for open buffers: one element for each lane of a workgroup, or as many as are returned of it."""
    config = pipeline.config
    workgroup = config.workgroup or pipeline.program.workgroup_size
    counts = dict(config.output_counts or {})
    nbytes, names = [], []
    for binding in plan_bindings(pipeline.program).bindings:
        buffer, size = binding.buffer, binding.element_size
        is_input = binding.input_index is not None
        if is_input and binding.static_nbytes is not None:
            nbytes.append(binding.static_nbytes)
        elif is_input or not (buffer.count or buffer.like or buffer.name in counts):
            names.append(f"`{buffer.name}`")
            count = max(prod(workgroup), -(-(buffer.output_range or (0, 0))[1] // size))
            if is_input:
                nbytes.append(count * size)
            else:
                counts[buffer.name] = count
    assumed = [f"{prod(workgroup)} elements of {', '.join(names)}"] if names else []
    if config.grid is None and config.extent is None and workgroup[1:] != (1, 1):  # no grid is inferred for these
        config = replace(config, grid=(1, 1, 1))
        assumed.append("one workgroup")
    text = f"sizes are left open: {' and '.join(assumed)} are assumed" if assumed else ""
    return Lengths(tuple(nbytes), replace(config, output_counts=counts or None), text)


def _lengths(pipeline: Pipeline, inputs: Inputs) -> Lengths:
    return Lengths(tuple(view.nbytes for view in pipeline.views(inputs)), pipeline.config)


def _kernel(asked: Asked, pipeline: Pipeline, costs: LaunchCosts) -> Measured | None:
    if asked.kernel_time_ns is not None:
        return Measured(asked.kernel_time_ns, 0, 0, 0, Provenance.ASSUMED)
    return costs.kernel(pipeline.id)
