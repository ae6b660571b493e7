"""Which lowering strategy is used?

``select_strategy`` takes, of the strategies that apply, the one of highest priority; by default the last in the list
wins a tie.  O(n).

vyre-driver registers strategies in link order, so its tie-break differs between builds; ``by_name`` sorts ties by name
instead.
"""

from __future__ import annotations

from vyre.policies.record import U32, record


@record
class Strategy:
    """A lowering strategy.

    By convention, ``priority`` is 100 for native, 50 for several instructions, 10 for portable.
    """

    name: str
    applies: bool
    priority: U32


@record
class StrategyInputs:
    """The registered strategies; ``by_name`` sorts ties by name."""

    strategies: tuple[Strategy, ...]
    by_name: bool = False


def select_strategy(inputs: StrategyInputs) -> Strategy | None:
    """Returns the applicable strategy of highest priority, or None.

    A tie goes to the last in the list, or with ``by_name`` to the first by name.
    """
    applicable = [s for s in inputs.strategies if s.applies]
    if inputs.by_name:
        return min(applicable, key=lambda s: (-s.priority, s.name), default=None)
    return max(reversed(applicable), key=lambda s: s.priority, default=None)
