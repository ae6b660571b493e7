"""Which cache entries are affected when some nodes change?

An entry is affected if the node of its cell changed, is reachable from a changed node, or was derived by the join rules
from one that is.  Reachability over boolean edges has no cap on iterations: O(V + E) for the rules, and a transitive
fixpoint for the provenance.

Unlike vyre-driver, which composes edge weights with a bitwise AND and so loses paths, and which stops after a fixed
number of squarings and so silently invalidates too little, this computes full reachability.
"""

from __future__ import annotations

from vyre.domain.errors import InvalidField
from vyre.policies.caching.artifact_dependencies import reached_from
from vyre.policies.record import U32, Count, record


@record
class InvalidationInputs:
    """Square n x n tables in row-major order; a non-zero element is an edge.

    - ``intervention_mask``: non-zero for each node that changed.
    - ``rule_adj``: the edges i -> j.
    - ``state`` and ``join_rules``: clause bits of the provenance.
    - ``lineage_cells``: the node of each cache entry; a node that is out of range leaves the entry unaffected.
    """

    intervention_mask: tuple[U32, ...]
    rule_adj: tuple[U32, ...]
    state: tuple[U32, ...]
    join_rules: tuple[U32, ...]
    n: Count
    lineage_cells: tuple[U32, ...]

    def __post_init__(self) -> None:
        for name, expected in (
            ("intervention_mask", self.n),
            ("rule_adj", self.n**2),
            ("state", self.n**2),
            ("join_rules", self.n**2),
        ):
            value = getattr(self, name)
            if len(value) != expected:
                raise InvalidField(
                    record="InvalidationInputs",
                    field=name,
                    value=f"<{len(value)} values>",
                    expected=f"{expected} values",
                )


@record
class Invalidation:
    """``impacted_rules`` holds one flag per node, ``entries`` one flag per cache entry."""

    impacted_rules: tuple[bool, ...]
    entries: tuple[bool, ...]


def impacted_entries(inputs: InvalidationInputs) -> Invalidation:
    """Returns which nodes are reachable from the changed ones, and which entries depend on them."""
    n = inputs.n
    edges = [[j for j in range(n) if inputs.rule_adj[i * n + j]] for i in range(n)]
    reached = reached_from((i for i in range(n) if inputs.intervention_mask[i]), edges.__getitem__)
    impacted = tuple(i in reached for i in range(n))
    derived = _provenance(inputs)
    impacted_bits = sum(1 << i for i, hit in enumerate(impacted) if hit)
    entries = tuple(
        cell < n and (impacted[cell] or bool(derived[cell] & impacted_bits)) for cell in inputs.lineage_cells
    )
    return Invalidation(impacted, entries)


def _provenance(inputs: InvalidationInputs) -> list[int]:
    """For each node the bit set of nodes it was derived from: the closure of ``state`` under ``join_rules``."""
    n = inputs.n
    state = [_row_bits(inputs.state, row, n) for row in range(n)]
    join = [_row_bits(inputs.join_rules, row, n) for row in range(n)]
    closed = []
    for start in state:
        found = frontier = start
        while frontier:
            node = frontier.bit_length() - 1
            frontier &= ~(1 << node)
            new = join[node] & ~found
            found |= new
            frontier |= new
        closed.append(found)
    return closed


def _row_bits(table: tuple[int, ...], row: int, n: int) -> int:
    return sum(1 << column for column in range(n) if table[row * n + column])
