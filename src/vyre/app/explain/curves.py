"""The predicted time of a run over the size of the batch, for charts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from vyre.app.explain.explanation import Explanation

MOST_RUNS: Final = 1 << 20
"""Largest batch of the chart."""


def price_curves(explanation: Explanation) -> tuple[list[int], dict[str, list[int]]]:
    """Returns sizes of batches, up to four times as large, and for each mode the time of a run in ns at each size."""
    nodes, repeats = explanation.inputs.workload.nodes, explanation.inputs.workload.repeats
    largest = min(max(4 * explanation.inputs.workload.batch, 16), MOST_RUNS // nodes)
    sizes = [1 << power for power in range(max(1, largest).bit_length())]
    priced = [explanation.at(size) for size in sizes]
    modes = [mode for mode in priced[0] if all(mode in prices for prices in priced)]
    curves = {
        mode.value: [prices[mode].total_ns // (repeats * size) for size, prices in zip(sizes, priced, strict=True)]
        for mode in modes
    }
    return sizes, curves
