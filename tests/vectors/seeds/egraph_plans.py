"""Plans of vyre-driver for closing an e-graph by pairs of rows, and the classes that they find.

Candidate pairs come from buckets of rows with equal signature; only an exact comparison makes two classes equal.

Unlike vyre-driver, in which a bucket of n rows costs n(n-1)/2 pairs and the rows of a pair are found by a loop linear
in n, ``pair_of`` is O(1), equal rows are found by grouping (O(rows + children)), and with ``leaders_only`` a group
yields one pair per class after its first instead of all pairs.  The unions that follow are the same.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from enum import Enum
from itertools import combinations
from typing import Final, NamedTuple

from vectors.seeds.egraph_image import EGraphSnapshot, ENodeRow, intern_operators, row_signature
from vyre.domain.errors import PlanError
from vyre.policies.record import U32, U64, record, verdict

PAIR_BYTES: Final = 8
"""Bytes of a pair of classes."""
COUNTER_BYTES: Final = 8
"""Bytes of the counter of pairs."""


@record
class LaunchConfig:
    """The threads of a block and the most blocks of a launch, both at least 1."""

    threads_per_block: U32 = 256
    max_blocks_per_launch: U32 = 65_535

    def require_positive(self) -> None:
        """Raises ``PlanError`` if the configuration launches nothing."""
        if self.threads_per_block == 0:
            raise PlanError("ZeroThreadsPerBlock")
        if self.max_blocks_per_launch == 0:
            raise PlanError("ZeroMaxBlocksPerLaunch")


class KernelPass(Enum):
    """Passes of the scan and of the union, each in launch order."""

    ROW_SCAN = "row_scan"
    CHILD_EDGE_SCAN = "child_edge_scan"
    ECLASS_GROUP_SCAN = "eclass_group_scan"
    UNION_PAIRS = "union_pairs"
    CANONICAL_REWRITES = "canonical_rewrites"


def chunks_of(items: int, config: LaunchConfig) -> Iterable[tuple[int, int, int]]:
    """Yields the launches that cover so many items in order: the first item, and the numbers of items and blocks."""
    per_launch = config.threads_per_block * config.max_blocks_per_launch
    for first in range(0, items, per_launch):
        count = min(per_launch, items - first)
        yield first, count, -(-count // config.threads_per_block)


class Wave(NamedTuple):
    """One launch of a pass."""

    kernel_pass: KernelPass
    first_item: int
    item_count: int
    blocks: int
    threads_per_block: int


def waves_of(passes: Iterable[tuple[KernelPass, int]], config: LaunchConfig) -> tuple[Wave, ...]:
    threads = config.threads_per_block
    return tuple(Wave(kind, *chunk, threads) for kind, items in passes for chunk in chunks_of(items, config))


@record
class WorkInputs:
    """The sizes of an e-graph."""

    row_count: U32
    child_count: U32
    eclass_group_count: U32
    config: LaunchConfig = LaunchConfig()


@verdict
class WorkPlan:
    """The launches that cover the work, and the sums of their items and blocks."""

    waves: tuple[Wave, ...]
    total_items: int
    total_blocks: int


def plan_work(inputs: WorkInputs) -> WorkPlan:
    """Returns the scans over rows, child edges and class groups.  O(launches)."""
    inputs.config.require_positive()
    passes = (
        (KernelPass.ROW_SCAN, inputs.row_count),
        (KernelPass.CHILD_EDGE_SCAN, inputs.child_count),
        (KernelPass.ECLASS_GROUP_SCAN, inputs.eclass_group_count),
    )
    return _work(waves_of(passes, inputs.config))


def _work(waves: tuple[Wave, ...]) -> WorkPlan:
    return WorkPlan(waves, sum(w.item_count for w in waves), sum(w.blocks for w in waves))


@record
class BucketInputs:
    """The signature of every row, in ``row_signatures``."""

    row_signatures: tuple[U32, ...]
    config: LaunchConfig = LaunchConfig()


class Bucket(NamedTuple):
    """The rows of one signature: ``bucket_rows[first_bucket_row : first_bucket_row + row_count]``."""

    signature: int
    first_bucket_row: int
    row_count: int
    candidate_pair_count: int

    def words(self) -> tuple[int, ...]:
        """Returns the record that a kernel reads: signature, first row, rows, and the pair count as low and
        high word.
        """
        pairs = self.candidate_pair_count
        return (*self[:3], pairs & 0xFFFF_FFFF, pairs >> 32)


class PairWave(NamedTuple):
    """One launch over pairs of one bucket."""

    bucket_index: int
    first_pair: int
    pair_count: int
    blocks: int
    threads_per_block: int


@verdict
class BucketPlan:
    """Buckets of at least two rows, sorted by signature, and the launches that compare their pairs."""

    buckets: tuple[Bucket, ...]
    bucket_rows: tuple[int, ...]
    pair_waves: tuple[PairWave, ...]
    candidate_pair_count: int
    total_blocks: int


def plan_signature_buckets(inputs: BucketInputs) -> BucketPlan:
    """Groups rows by signature.  O(rows log rows + launches)."""
    config = inputs.config
    config.require_positive()
    by_signature: dict[int, list[int]] = defaultdict(list)
    for row, signature in enumerate(inputs.row_signatures):
        by_signature[signature].append(row)
    buckets: list[Bucket] = []
    rows: list[int] = []
    waves: list[PairWave] = []
    for signature, members in sorted(by_signature.items()):
        if len(members) < 2:
            continue
        pairs = math.comb(len(members), 2)
        waves += (PairWave(len(buckets), *chunk, config.threads_per_block) for chunk in chunks_of(pairs, config))
        buckets.append(Bucket(signature, len(rows), len(members), pairs))
        rows += members
    return BucketPlan(
        tuple(buckets),
        tuple(rows),
        tuple(waves),
        sum(b.candidate_pair_count for b in buckets),
        sum(w.blocks for w in waves),
    )


def pair_of(ordinal: int, count: int) -> tuple[int, int]:
    """Returns the ``ordinal``-th pair i < j < ``count``, row by row of the upper triangle.  O(1)."""
    left = math.comb(count, 2) - 1 - ordinal
    row = (math.isqrt(8 * left + 1) - 1) // 2
    i = count - 2 - row
    return i, ordinal - math.comb(count, 2) + math.comb(count - i, 2) + i + 1


def pair_rows(plan: BucketPlan, bucket_index: int, ordinal: int) -> tuple[int, int]:
    """Returns the rows that pair number ``ordinal`` of a bucket compares."""
    bucket = plan.buckets[bucket_index]
    i, j = pair_of(ordinal, bucket.row_count)
    return plan.bucket_rows[bucket.first_bucket_row + i], plan.bucket_rows[bucket.first_bucket_row + j]


class OutputSizing(NamedTuple):
    """Device buffers for the worst case, in which every candidate pair is an equivalence."""

    max_equivalences: int

    @property
    def pair_bytes(self) -> int:
        """Size in bytes of the buffer of pairs."""
        return self.max_equivalences * PAIR_BYTES

    @property
    def counter_bytes(self) -> int:
        """Size in bytes of the counter of pairs."""
        return COUNTER_BYTES


def output_sizing(plan: BucketPlan) -> OutputSizing:
    """Returns the sizes of the output buffers of a bucket plan."""
    return OutputSizing(plan.candidate_pair_count)


@record
class StructuralInputs:
    """An e-graph.

    ``leaders_only`` pairs each class of a group of equal rows with the smallest class instead of with all of them.
    """

    snapshot: EGraphSnapshot
    leaders_only: bool = False


@verdict
class StructuralEquivalences:
    """``equivalences`` are pairs (smaller, larger) of classes that hold an equal row, ascending.

    Of the pairs of rows, ``exact_pair_count`` are equal, ``redundant_pair_count`` of these lie in one class already,
    and ``rejected_candidate_pair_count`` only share a signature.
    """

    equivalences: tuple[tuple[int, int], ...]
    exact_pair_count: int
    redundant_pair_count: int
    rejected_candidate_pair_count: int


def plan_structural_equivalences(inputs: StructuralInputs) -> StructuralEquivalences:
    """Returns the classes that must be united because they hold equal rows.  O(rows + children + pairs found)."""
    snapshot = inputs.snapshot
    groups: dict[tuple[int, tuple[int, ...]], Counter[int]] = defaultdict(Counter)
    signatures: Counter[int] = Counter()
    for op, row in zip(intern_operators(snapshot), snapshot.rows, strict=True):
        groups[op, row.children][row.eclass_id] += 1
        signatures[row_signature(op, row.children)] += 1
    exact = sum(math.comb(group.total(), 2) for group in groups.values())
    redundant = sum(math.comb(count, 2) for group in groups.values() for count in group.values())
    candidates = sum(math.comb(count, 2) for count in signatures.values())
    found: set[tuple[int, int]] = set()
    for group in groups.values():
        first, *others = sorted(group)
        found.update(((first, other) for other in others) if inputs.leaders_only else combinations(sorted(group), 2))
    return StructuralEquivalences(tuple(sorted(found)), exact, redundant, candidates - exact)


@record
class UnionInputs:
    """Pairs of classes to unite, in any order and orientation; pairs may repeat."""

    equivalences: tuple[tuple[U32, U32], ...]
    config: LaunchConfig = LaunchConfig()


class Rewrite(NamedTuple):
    """Class ``eclass_id`` becomes ``representative``."""

    eclass_id: int
    representative: int


@verdict
class UnionPlan:
    """Oriented unique pairs, the classes in them, and a rewrite for every class that is not its own representative."""

    canonical_pairs: tuple[tuple[int, int], ...]
    affected_eclasses: tuple[int, ...]
    canonical_rewrites: tuple[Rewrite, ...]
    waves: tuple[Wave, ...]
    ignored_self_pair_count: int
    duplicate_pair_count: int
    total_items: int
    total_blocks: int


def plan_union_compaction(inputs: UnionInputs) -> UnionPlan:
    """Unites classes; the smallest id of a set represents it.  O(n log n)."""
    inputs.config.require_positive()
    oriented = [(min(pair), max(pair)) for pair in inputs.equivalences if pair[0] != pair[1]]
    pairs = sorted(set(oriented))
    rewrites = _rewrites(pairs)
    waves = waves_of(
        ((KernelPass.UNION_PAIRS, len(pairs)), (KernelPass.CANONICAL_REWRITES, len(rewrites))), inputs.config
    )
    work = _work(waves)
    return UnionPlan(
        canonical_pairs=tuple(pairs),
        affected_eclasses=tuple(sorted({eclass for pair in pairs for eclass in pair})),
        canonical_rewrites=rewrites,
        waves=waves,
        ignored_self_pair_count=len(inputs.equivalences) - len(oriented),
        duplicate_pair_count=len(oriented) - len(pairs),
        total_items=work.total_items,
        total_blocks=work.total_blocks,
    )


def _rewrites(pairs: list[tuple[int, int]]) -> tuple[Rewrite, ...]:
    parent: dict[int, int] = {}

    def root(eclass: int) -> int:
        while (above := parent.setdefault(eclass, eclass)) != eclass:
            parent[eclass] = parent[above]
            eclass = parent[eclass]
        return eclass

    for left, right in pairs:
        a, b = root(left), root(right)
        parent[max(a, b)] = min(a, b)
    return tuple(Rewrite(eclass, root(eclass)) for eclass in sorted(parent) if root(eclass) != eclass)


@record
class FixedPointInputs:
    """An e-graph.  ``max_rounds`` limits the rounds; None runs until nothing changes, which always happens."""

    snapshot: EGraphSnapshot
    max_rounds: U64 | None = None


@verdict
class FixedPoint:
    """The rewrites of every round, the last of which is empty when ``converged``, and the e-graph after them."""

    rewrites_per_round: tuple[tuple[Rewrite, ...], ...]
    converged: bool
    snapshot: EGraphSnapshot


def structural_fixed_point(inputs: FixedPointInputs) -> FixedPoint:
    """Finds equal rows, unites their classes and rewrites, until a round finds nothing.

    Every round except the last removes a class, so there is at most one round more than classes.  A round is linear.
    """
    snapshot = inputs.snapshot
    rounds: list[tuple[Rewrite, ...]] = []
    while inputs.max_rounds is None or len(rounds) < inputs.max_rounds:
        found = plan_structural_equivalences(StructuralInputs(snapshot, leaders_only=True))
        rounds.append(_rewrites(list(found.equivalences)))
        if not rounds[-1]:
            return FixedPoint(tuple(rounds), True, snapshot)
        root = dict(rounds[-1])
        snapshot = EGraphSnapshot(
            tuple(
                ENodeRow(root.get(row.eclass_id, row.eclass_id), row.op, tuple(root.get(c, c) for c in row.children))
                for row in snapshot.rows
            )
        )
    return FixedPoint(tuple(rounds), False, snapshot)
