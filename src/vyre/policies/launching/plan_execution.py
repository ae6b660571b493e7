"""How is a batch run: launched plainly, replayed as a graph, kept resident or fused?

Units: nanoseconds.  Rule: ``execution_prices`` prices every mode that can be executed and whose costs are known, for
the same workload.  The rules about single modes are applied to costs net of the time that asynchronous execution hides:
``persistent_kernel`` decides whether a net launch, less the time in which the resident kernel finds an item, pays for
the setup; ``command_reuse`` whether the net time of replays pays for recording; ``dispatch_policy`` which of the two
saves more; ``launch_fusion``, in the prices, which stages are one launch.  The cheapest mode is chosen, ties to the
earlier rule.

The incumbent, the mode in use, is left only for a predicted gain of more than two standard errors of the difference of
the two prices and of more than 2 % of its own price, so that noise in the costs does not make the choice oscillate.  It
also stays where its price or that of plain launches is unknown, because no gain is predicted then.

vyre-driver applies each rule alone to raw costs.  Then ``persistent_kernel`` and ``command_reuse`` credit launches that
kernels hide, and their savings are measured from different baselines.  With net costs each of them saves exactly the
difference of the prices, so a rule and a price contradict each other only where a rule refuses a count below its
minimum.  A price shows that a single launch does not pay for a setup or a recording, so these minima are 1 here; with
other minima a refusal holds, whatever the prices are.

See ``execution_prices`` for the cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from vyre.policies.arith import weighted
from vyre.policies.launching.command_reuse import (
    CommandReuseInputs,
    CommandReuseThresholds,
    CommandReuseVerdict,
    PlainLaunches,
    decide_command_reuse,
)
from vyre.policies.launching.dispatch_policy import (
    PrimaryMode,
    RunCommandReuse,
    RunPersistentKernel,
    RunPlainLaunches,
    select_primary_execution_mode,
)
from vyre.policies.launching.execution_prices import (
    ExecutionMode,
    Price,
    PriceInputs,
    Quote,
    error_of_difference_ns,
    quote,
)
from vyre.policies.launching.persistent_kernel import (
    PersistentKernel,
    PersistentKernelInputs,
    PersistentKernelThresholds,
    PersistentKernelVerdict,
    StandardLaunches,
    decide_persistent_kernel,
)
from vyre.policies.record import U32, U64_MAX, BasisPoints, Reason, record, verdict, why_field


@record
class ExecutionInputs(PriceInputs):
    """A workload and its costs.  ``incumbent`` is the mode in use; without one (None) any gain is large enough."""

    incumbent: ExecutionMode | None = None


@record
class ExecutionThresholds:
    """``standard_errors`` of the difference and ``min_gain_bps`` of the incumbent's price are what a gain must exceed.

    ``persistent`` and ``reuse`` are the thresholds of the rules about single modes; their minima are 1, because the
    prices decide.
    """

    standard_errors: U32 = 2
    min_gain_bps: BasisPoints = 200
    persistent: PersistentKernelThresholds = PersistentKernelThresholds(min_batch=1)
    reuse: CommandReuseThresholds = CommandReuseThresholds(min_repeats=1)


@verdict
class ExecutionPlan:
    """The ``mode`` to use, and the ``quotes`` of all modes in their order.

    ``gain_ns`` is what the cheapest mode saves over the incumbent, or over plain launches without one; ``margin_ns`` is
    what the gain has to exceed.  ``persistent`` and ``reuse`` are the verdicts on single modes, for one batch and for
    all repeats; None if there are no two prices to compare.
    """

    mode: ExecutionMode
    quotes: tuple[Quote, ...]
    gain_ns: int
    margin_ns: int
    persistent: PersistentKernelVerdict | None = None
    reuse: CommandReuseVerdict | None = None
    why: Reason = why_field()

    def price(self, mode: ExecutionMode) -> Price | None:
        """Returns the price of a mode, or None if it is unavailable."""
        return next((found for found in self.quotes if isinstance(found, Price) and found.mode is mode), None)

    @property
    def predicted(self) -> Price | None:
        """The price of the chosen mode, or None if it is unavailable."""
        return self.price(self.mode)


DEFAULT_THRESHOLDS: Final = ExecutionThresholds()


def plan_execution(inputs: ExecutionInputs, thresholds: ExecutionThresholds = DEFAULT_THRESHOLDS) -> ExecutionPlan:
    """Returns the mode to use, with a price of every mode that can be used."""
    quotes = quote(inputs)
    prices = {found.mode: found for found in quotes if isinstance(found, Price)}
    possible = {found.mode for found in quotes if isinstance(found, Price) or found.unknown}
    incumbent = inputs.incumbent if inputs.incumbent in possible else None
    plain = prices.get(ExecutionMode.PLAIN)
    if plain is None:
        why = Reason("plain launches have no price, so nothing has a predicted gain")
        return ExecutionPlan(incumbent or ExecutionMode.PLAIN, quotes, 0, 0, why=why)
    kernel = inputs.workload.kernel
    assert kernel is not None  # without it plain launches have no price
    resident, replayed = prices.get(ExecutionMode.PERSISTENT), prices.get(ExecutionMode.GRAPH)
    persistent = _persistent(plain, resident, kernel.median_ns, thresholds.persistent)
    reuse = _reuse(plain, replayed, inputs.workload.repeats, kernel.median_ns, thresholds.reuse)
    best = _cheapest(prices, persistent, reuse, inputs.workload.repeats)
    mode, gain, margin, why = _choose(best, plain, incumbent, prices, thresholds)
    return ExecutionPlan(mode, quotes, gain, margin, persistent, reuse, why)


def _persistent(
    plain: Price, resident: Price | None, kernel_ns: int, thresholds: PersistentKernelThresholds
) -> PersistentKernelVerdict | None:
    """Judges one batch, with the cost of a launch net of the cost of an item of the resident kernel."""
    if resident is None:
        return None
    net = max(0, plain.step_ns - resident.step_ns)
    setup = resident.start_ns - plain.start_ns
    inputs = PersistentKernelInputs(plain.steps, _field(net), kernel_ns, _field(setup))
    return decide_persistent_kernel(inputs, thresholds)


def _reuse(
    plain: Price, replayed: Price | None, repeats: int, kernel_ns: int, thresholds: CommandReuseThresholds
) -> CommandReuseVerdict | None:
    """Judges all repeats, with costs net of the kernels, which take as long either way.

    Where launches were timed with their kernels, a batch may have taken less time than its kernels in lists: then no
    more than that is taken off both.
    """
    if replayed is None:
        return None
    hidden = min(plain.steps * kernel_ns, plain.batch_ns, replayed.batch_ns)
    launch, replay = plain.batch_ns - hidden, replayed.batch_ns - hidden
    inputs = CommandReuseInputs(repeats, _field(launch), _field(replayed.once_ns), _field(replay))
    return decide_command_reuse(inputs, thresholds)


def _field(ns: int) -> int:
    """Returns ``ns`` as a field of 64 bits holds it; longer times exceed 584 years."""
    return min(ns, U64_MAX)


def _cheapest(
    prices: Mapping[ExecutionMode, Price],
    persistent: PersistentKernelVerdict | None,
    reuse: CommandReuseVerdict | None,
    repeats: int,
) -> Price:
    if isinstance(persistent, PersistentKernel):
        persistent = PersistentKernel(persistent.savings_ns * repeats)
    primary = select_primary_execution_mode(persistent or StandardLaunches(), reuse or PlainLaunches())
    best = prices[_MODES[type(primary)]]
    fused = prices.get(ExecutionMode.FUSED)
    return fused if fused is not None and fused.total_ns < best.total_ns else best


_MODES: Final[dict[type[PrimaryMode], ExecutionMode]] = {
    RunPlainLaunches: ExecutionMode.PLAIN,
    RunCommandReuse: ExecutionMode.GRAPH,
    RunPersistentKernel: ExecutionMode.PERSISTENT,
}


def _choose(
    best: Price,
    plain: Price,
    incumbent: ExecutionMode | None,
    prices: Mapping[ExecutionMode, Price],
    thresholds: ExecutionThresholds,
) -> tuple[ExecutionMode, int, int, Reason]:
    """Returns mode, gain, margin and reason."""
    if incumbent is None and best.mode is ExecutionMode.PLAIN:
        lone = len(prices) == 1
        why = Reason("nothing but plain launches has a price") if lone else Reason("plain launches are cheapest")
        return best.mode, 0, 0, why
    if incumbent is None:
        gain = plain.total_ns - best.total_ns
        return best.mode, gain, 0, Reason("{} is cheapest, {} ns below plain launches", (best.mode.value, gain))
    used = prices.get(incumbent)
    if used is None:
        return incumbent, 0, 0, Reason("{} has no price, so nothing has a predicted gain", (incumbent.value,))
    if best.mode is incumbent:
        return incumbent, 0, 0, Reason("{} is in use and cheapest", (incumbent.value,))
    gain = used.total_ns - best.total_ns
    margin = max(
        thresholds.standard_errors * error_of_difference_ns(used, best),
        weighted(used.total_ns, thresholds.min_gain_bps),
    )
    if gain > margin:
        why = Reason("{} gains {} ns over {}, more than {} ns", (best.mode.value, gain, incumbent.value, margin))
        return best.mode, gain, margin, why
    why = Reason("{} stays: {} gains {} ns, no more than {} ns", (incumbent.value, best.mode.value, gain, margin))
    return incumbent, gain, margin, why
