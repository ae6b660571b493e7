"""Sets of tuning records: however they are merged, the same are kept; a line is what was written, or refused."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.tuning import RECORDS, tuning_record
from vyre.domain.errors import MalformedJson
from vyre.domain.tuning import KeptRecords, TuningRecord, from_line, merge, to_line

SETS = st.lists(RECORDS, max_size=12)
KEPT = st.builds(KeptRecords, st.integers(1, 3), st.integers(1, 9))


@given(SETS, SETS, SETS, KEPT)
def test_merging_is_commutative_associative_and_idempotent(
    a: list[TuningRecord], b: list[TuningRecord], c: list[TuningRecord], kept: KeptRecords
) -> None:
    whole = merge(a, b, c, kept=kept)
    assert merge(c, a, b, kept=kept) == whole
    assert merge(merge(a, b, kept=kept), c, kept=kept) == whole
    assert merge(a, merge(b, c, kept=kept), kept=kept) == whole
    assert merge(whole, kept=kept) == merge(whole, whole, kept=kept) == merge(whole, b, kept=kept) == whole


@given(SETS, KEPT)
def test_what_is_kept_is_the_latest_of_each_candidate(records: list[TuningRecord], kept: KeptRecords) -> None:
    merged = merge(records, kept=kept)
    assert set(merged) <= set(records)
    assert len(merged) <= kept.in_all
    assert [found.at_s for found in merged] == sorted((found.at_s for found in merged), reverse=True)
    for cut in set(records) - set(merged):
        later = [one for one in merged if one.at_s >= cut.at_s]
        rivals = [one for one in later if (one.key, one.candidate, one.kind) == (cut.key, cut.candidate, cut.kind)]
        assert len(rivals) == kept.of_a_candidate or len(later) == kept.in_all


@given(RECORDS)
def test_a_line_is_read_back_as_what_was_written(found: TuningRecord) -> None:
    assert from_line(to_line(found)) == found


@given(RECORDS, RECORDS)
def test_lines_are_equal_where_records_are(one: TuningRecord, other: TuningRecord) -> None:
    assert (to_line(one) == to_line(other)) is (one == other)


def test_every_changed_or_missing_character_of_a_line_is_noticed() -> None:
    line = to_line(tuning_record())
    damaged = [line[:at] + chr(ord(char) ^ 1) + line[at + 1 :] for at, char in enumerate(line)]
    damaged += [line[:start] + line[end:] for start, end in combinations((*range(len(line)), len(line)), 2)][::17]
    for text in damaged:
        with pytest.raises(MalformedJson):
            from_line(text)
