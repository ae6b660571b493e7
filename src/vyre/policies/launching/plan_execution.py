"""How is a batch run: launched plainly, replayed as a graph, kept resident or fused?

Units: nanoseconds.  Rule: ``execution_prices`` prices every mode that can be executed and whose costs are known, for
the same workload, and the cheapest is chosen; of equal prices that of plain launches, then of a graph, then of a
resident kernel.

The incumbent, the mode in use, is left only for a predicted gain of more than two standard errors of the difference of
the two prices and of more than 2 % of its own price, so that noise in the costs does not make the choice oscillate.  It
also stays where its price or that of plain launches is unknown, because no gain is predicted then.

vyre-driver asks ``persistent_kernel`` and ``command_reuse``, each alone and about raw costs, so that they credit
launches that kernels hide, and measure their savings from different baselines.  With costs net of the time that
asynchronous execution hides, each of them saves exactly the difference of the prices; tests compare them.

See ``execution_prices`` for the cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from vyre.policies.arith import weighted
from vyre.policies.launching.execution_prices import (
    ExecutionMode,
    Price,
    PriceInputs,
    Quote,
    error_of_difference_ns,
    quote,
)
from vyre.policies.record import U32, BasisPoints, Reason, record, verdict, why_field


@record
class ExecutionInputs(PriceInputs):
    """A workload and its costs.  ``incumbent`` is the mode in use; without one (None) any gain is large enough."""

    incumbent: ExecutionMode | None = None


@record
class ExecutionThresholds:
    """A gain must exceed ``standard_errors`` of the difference, and ``min_gain_bps`` of the incumbent's price."""

    standard_errors: U32 = 2
    min_gain_bps: BasisPoints = 200


@verdict
class ExecutionPlan:
    """The ``mode`` to use, and the ``quotes`` of all modes in their order.

    ``gain_ns`` is what the cheapest mode saves over the incumbent, or over plain launches without one; ``margin_ns`` is
    what the gain has to exceed.
    """

    mode: ExecutionMode
    quotes: tuple[Quote, ...]
    gain_ns: int
    margin_ns: int
    why: Reason = why_field()

    def price(self, mode: ExecutionMode) -> Price | None:
        """Returns the price of a mode, or None if it is unavailable."""
        return next((price for price in self.quotes if isinstance(price, Price) and price.mode is mode), None)

    @property
    def predicted(self) -> Price | None:
        """The price of the chosen mode, or None if it is unavailable."""
        return self.price(self.mode)


DEFAULT_THRESHOLDS: Final = ExecutionThresholds()


def plan_execution(inputs: ExecutionInputs, thresholds: ExecutionThresholds = DEFAULT_THRESHOLDS) -> ExecutionPlan:
    """Returns the mode to use, with a price of every mode that can be used."""
    quotes = quote(inputs)
    prices = {price.mode: price for price in quotes if isinstance(price, Price)}
    possible = {price.mode for price in quotes if isinstance(price, Price) or price.unknown}
    incumbent = inputs.incumbent if inputs.incumbent in possible else None
    plain = prices.get(ExecutionMode.PLAIN)
    if plain is None:
        why = Reason("plain launches have no price, so nothing has a predicted gain")
        return ExecutionPlan(incumbent or ExecutionMode.PLAIN, quotes, 0, 0, why=why)
    best = min((prices[mode] for mode in ExecutionMode if mode in prices), key=lambda price: price.total_ns)
    mode, gain, margin, why = _choose(best, plain, incumbent, prices, thresholds)
    return ExecutionPlan(mode, quotes, gain, margin, why)


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
