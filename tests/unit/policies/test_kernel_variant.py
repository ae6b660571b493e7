"""A variant assumes exactly what holds of the memory that a launch binds."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from vyre.policies.variants.kernel_variant import BoundRange, VariantInputs, choose_variant

RANGES = st.lists(st.builds(BoundRange, st.integers(0, 96), st.integers(0, 24), st.booleans()), max_size=6).map(tuple)


def overlap(a: BoundRange, b: BoundRange) -> bool:
    return bool(a.nbytes and b.nbytes) and a.address < b.address + b.nbytes and b.address < a.address + a.nbytes


@given(RANGES)
def test_noalias_iff_nothing_written_meets_another_range(ranges: tuple[BoundRange, ...]) -> None:
    apart = not any(overlap(a, b) and (a.written or b.written) for a, b in combinations(ranges, 2))
    assert choose_variant(VariantInputs(ranges)).noalias is apart


@given(RANGES)
def test_aligned16_iff_every_used_range_starts_at_a_multiple(ranges: tuple[BoundRange, ...]) -> None:
    aligned = all(r.address % 16 == 0 for r in ranges if r.nbytes)
    assert choose_variant(VariantInputs(ranges)).aligned16 is aligned


@given(RANGES)
def test_the_order_of_the_bindings_does_not_matter(ranges: tuple[BoundRange, ...]) -> None:
    shuffled = tuple(sorted(ranges, key=lambda r: (r.nbytes, r.written, r.address)))
    assert choose_variant(VariantInputs(shuffled)) == choose_variant(VariantInputs(ranges))


def test_the_first_byte_of_memory_is_like_any_other() -> None:
    assert choose_variant(VariantInputs((BoundRange(0, 16, True), BoundRange(16, 16, True)))).noalias
    assert not choose_variant(VariantInputs((BoundRange(0, 16, False), BoundRange(0, 16, True)))).noalias


def test_the_reason_names_the_address() -> None:
    same = (BoundRange(0x100, 16, False), BoundRange(0x100, 16, True))
    assert str(choose_variant(VariantInputs(same)).why) == "written memory overlaps another binding at 0x100"
    assert str(choose_variant(VariantInputs((BoundRange(0x104, 4, False),))).why).startswith("memory at 0x104")
    assert str(choose_variant(VariantInputs(())).why) == "0 ranges, aligned and apart"
