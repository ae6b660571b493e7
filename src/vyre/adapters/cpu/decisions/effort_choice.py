"""Is the code of a kernel made by the quick, the light or full effort of the compiler?

Units: ns, basic blocks, lines.  Rule: a kernel starts with light effort, whose code is ready soon, unless its
text is so long that the time of this effort, which grows with the square of the length, would be seconds or more;
then it starts with quick effort, whose time is linear.  The full one follows as soon as the time that its code would
have saved so far reaches the time that it takes to compile.  The future use of a kernel need not be known for that, and
yet no more is lost by waiting than by compiling at once.  A kernel of quick effort that has too many nodes keeps
its code, because no time of its launches is worth the compilation.  O(1).
"""

from __future__ import annotations

from typing import Final

from vyre.policies.record import BasisPoints, Count, Nanoseconds, Reason, record, verdict, why_field

_WHOLE: Final = 10_000


@record
class TextInputs:
    """The text of a module: its basic blocks, and its lines, nearly all of which are instructions."""

    blocks: Count
    lines: Count


@record
class TextThresholds:
    """The most basic blocks and the most lines of a text for light effort."""

    most_blocks: Count = 500
    most_lines: Count = 8_000


@record
class EffortInputs:
    """A kernel.

    - ``launches``: its launches so far.
    - ``spent_ns``: the processor time of these launches.
    - ``nodes``: the nodes of its program.
    - ``light_ns``: the time in which light effort compiled it; None if unknown.
    - ``stored``: whether code of full effort is stored already.
    - ``compiler``: whether a compiler is installed.
    - ``quick``: whether its code is that of quick effort.
    """

    launches: Count
    spent_ns: Nanoseconds
    nodes: Count
    light_ns: Nanoseconds | None = None
    stored: bool = False
    compiler: bool = True
    quick: bool = False


@record
class EffortThresholds:
    """Limits, and the estimated time of full effort.

    - ``saving_bps``: the share of the time of light code that full code saves.
    - ``min_launches``: the launches before which nothing is compiled again.
    - ``light_multiple``: the time of full effort as a multiple of that of light effort.
    - ``compile_ns`` and ``node_ns``: its time for a kernel, and for each node, where that of light effort is unknown.
    - ``quick_saving_bps``: the share of the time of quick code that full code saves.
    - ``quick_node_ns``: the time of full effort for each node of a kernel whose code is quick.
    - ``most_nodes``: the most nodes of a kernel with quick code that is compiled again.
    """

    saving_bps: BasisPoints = 2_000
    min_launches: Count = 2
    light_multiple: Count = 3
    compile_ns: Nanoseconds = 40_000_000
    node_ns: Nanoseconds = 1_000_000
    quick_saving_bps: BasisPoints = 6_000
    quick_node_ns: Nanoseconds = 5_000_000
    most_nodes: Count = 4_096


@verdict
class QuickEffort:
    """The code of quick effort is used."""

    why: Reason = why_field()

    @property
    def label(self) -> str:
        """The effort, for telemetry."""
        return "quick"


@verdict
class LightEffort:
    """The code of light effort is used."""

    why: Reason = why_field()

    @property
    def label(self) -> str:
        """The effort, for telemetry."""
        return "light"


@verdict
class FullEffort:
    """The code of full effort is used, or made in the background."""

    why: Reason = why_field()

    @property
    def label(self) -> str:
        """The effort, for telemetry."""
        return "full"


DEFAULT_THRESHOLDS: Final = EffortThresholds()
DEFAULT_TEXT_THRESHOLDS: Final = TextThresholds()


def first_effort(inputs: TextInputs, thresholds: TextThresholds = DEFAULT_TEXT_THRESHOLDS) -> QuickEffort | LightEffort:
    """Returns the effort that makes the first code of a kernel (equality with a limit makes it light)."""
    if inputs.blocks > thresholds.most_blocks:
        return QuickEffort(Reason("{} basic blocks are more than {}", (inputs.blocks, thresholds.most_blocks)))
    if inputs.lines > thresholds.most_lines:
        return QuickEffort(Reason("{} lines of text are more than {}", (inputs.lines, thresholds.most_lines)))
    return LightEffort(Reason("{} basic blocks and {} lines of text are few", (inputs.blocks, inputs.lines)))


def compiler_effort(
    inputs: EffortInputs, thresholds: EffortThresholds = DEFAULT_THRESHOLDS
) -> QuickEffort | LightEffort | FullEffort:
    """Returns the effort for the next launch of a kernel (equality makes it full)."""
    if inputs.stored:
        return FullEffort(Reason("its full code is stored"))
    present = QuickEffort if inputs.quick else LightEffort
    if not inputs.compiler:
        return present(Reason("no compiler is installed that could make full code"))
    if inputs.quick and inputs.nodes > thresholds.most_nodes:
        return present(
            Reason("{} nodes are more than {}, too many for full code", (inputs.nodes, thresholds.most_nodes))
        )
    if inputs.launches < thresholds.min_launches:
        return present(Reason("{} launches are fewer than {}", (inputs.launches, thresholds.min_launches)))
    saving_bps = thresholds.quick_saving_bps if inputs.quick else thresholds.saving_bps
    saved = inputs.spent_ns * saving_bps // _WHOLE
    if inputs.quick:
        needed = thresholds.compile_ns + inputs.nodes * thresholds.quick_node_ns
    elif inputs.light_ns is None:
        needed = thresholds.compile_ns + inputs.nodes * thresholds.node_ns
    else:
        needed = inputs.light_ns * thresholds.light_multiple
    figures = (saved, inputs.spent_ns, needed)
    if saved >= needed:
        return FullEffort(Reason("full code would have saved {} of {} ns, and takes {} ns to compile", figures))
    return present(Reason("full code would have saved only {} of {} ns, and takes {} ns to compile", figures))
