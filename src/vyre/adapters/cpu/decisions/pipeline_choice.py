"""Is the code of a kernel made by the light pipeline of the compiler, or by the full one?

Units: ns.  Rule: every kernel starts with the light pipeline, whose code is ready soon.  The full one follows as soon
as the time that its code would have saved so far reaches the time that it takes to compile.  The future use of a kernel
need not be known for that, and yet no more is lost by waiting than by compiling at once.  O(1).
"""

from __future__ import annotations

from typing import Final

from vyre.policies.record import BasisPoints, Count, Nanoseconds, Reason, record, verdict, why_field

_WHOLE: Final = 10_000


@record
class PipelineInputs:
    """A kernel.

    - ``launches``: its launches so far.
    - ``spent_ns``: the processor time of these launches.
    - ``nodes``: the nodes of its program.
    - ``light_ns``: the time in which the light pipeline compiled it; None if unknown.
    - ``stored``: whether code of the full pipeline is stored already.
    - ``compiler``: whether a compiler is installed.
    """

    launches: Count
    spent_ns: Nanoseconds
    nodes: Count
    light_ns: Nanoseconds | None = None
    stored: bool = False
    compiler: bool = True


@record
class PipelineThresholds:
    """Limits, and the estimated time of the full pipeline.

    - ``saving_bps``: the share of the time of light code that full code saves.
    - ``min_launches``: the launches before which nothing is compiled again.
    - ``light_multiple``: the time of the full pipeline as a multiple of the light one.
    - ``compile_ns`` and ``node_ns``: its time for a kernel, and for each node, where that of the light one is unknown.
    """

    saving_bps: BasisPoints = 2_000
    min_launches: Count = 2
    light_multiple: Count = 3
    compile_ns: Nanoseconds = 40_000_000
    node_ns: Nanoseconds = 1_000_000


@verdict
class LightPipeline:
    """The code of the light pipeline is used."""

    why: Reason = why_field()

    @property
    def label(self) -> str:
        """The pipeline, for telemetry."""
        return "light"


@verdict
class FullPipeline:
    """The code of the full pipeline is used, or made in the background."""

    why: Reason = why_field()

    @property
    def label(self) -> str:
        """The pipeline, for telemetry."""
        return "full"


DEFAULT_THRESHOLDS: Final = PipelineThresholds()


def compile_pipeline(
    inputs: PipelineInputs, thresholds: PipelineThresholds = DEFAULT_THRESHOLDS
) -> LightPipeline | FullPipeline:
    """Returns the pipeline for the next launch of a kernel (equality makes the full one)."""
    if inputs.stored:
        return FullPipeline(Reason("its full code is stored"))
    if not inputs.compiler:
        return LightPipeline(Reason("no compiler is installed that could make full code"))
    if inputs.launches < thresholds.min_launches:
        return LightPipeline(Reason("{} launches are fewer than {}", (inputs.launches, thresholds.min_launches)))
    saved = inputs.spent_ns * thresholds.saving_bps // _WHOLE
    if inputs.light_ns is None:
        needed = thresholds.compile_ns + inputs.nodes * thresholds.node_ns
    else:
        needed = inputs.light_ns * thresholds.light_multiple
    figures = (saved, inputs.spent_ns, needed)
    if saved >= needed:
        return FullPipeline(Reason("full code would have saved {} of {} ns, and takes {} ns to compile", figures))
    return LightPipeline(Reason("full code would have saved only {} of {} ns, and takes {} ns to compile", figures))
