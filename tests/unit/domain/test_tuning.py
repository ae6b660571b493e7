"""Tuning records and their lines."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from support.tuning import tuning_key, tuning_record
from vyre.domain.errors import InvalidField, MalformedJson
from vyre.domain.tuning import (
    _FORM,
    KEPT,
    KEY_FIELDS,
    Candidate,
    TimeKind,
    TuningRecord,
    bucket_of,
    from_line,
    merge,
    to_json,
    to_line,
)


def sealed(**changes: Any) -> str:
    return _FORM.seal(to_json(tuning_record()) | changes)


def test_a_line_is_canonical_json_with_a_digest() -> None:
    line = to_line(tuning_record())
    content = json.loads(line)
    assert line == json.dumps(content, sort_keys=True, separators=(",", ":"))
    assert content.pop("blake3") != json.loads(to_line(tuning_record(1)))["blake3"]
    assert content == {
        "version": 1,
        "key": {
            "program": "0" * 64,
            "spec": "",
            "bucket": 10,
            "backend": "cuda",
            "device": "a device",
            "driver": "13.0",
            "versions": "vyre 1",
            "declared": [64, 1, 1],
            "settings": "",
        },
        "size": 64,
        "profile": "",
        "kind": "device",
        "run": "run 0",
        "place": 0,
        "of": 1,
        "samples": [100, 101],
        "matched": True,
        "at_s": 1000,
    }


ANOTHER: dict[str, Any] = {
    "program": "1" * 64,
    "spec": "00",
    "bucket": 11,
    "backend": "reference",
    "device": "another",
    "driver": "14",
    "versions": "vyre 2",
    "declared": (64, 1, 2),
    "settings": "cooperative=True",
}


@pytest.mark.parametrize("field", KEY_FIELDS)
def test_every_field_of_the_key_is_in_the_line(field: str) -> None:
    changed = tuning_record(key=replace(tuning_key(), **{field: ANOTHER[field]}))
    assert changed.key != tuning_key()
    assert from_line(to_line(changed)) == changed
    assert to_line(changed) != to_line(tuning_record())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[" * 100_000, "nested more than 64 deep"),
        ("9" * 5_000, "more than 40 digits"),
        ("[]", "digest"),
        ("null", "digest"),
        ("{}", "digest"),
        (to_line(tuning_record()).replace("100", "999"), "digest"),
        (" " + to_line(tuning_record()), "canonical"),
        (json.dumps(json.loads(to_line(tuning_record()))), "canonical"),
        (_FORM.seal(to_json(tuning_record()) | {"more": 1}), "canonical"),
        (sealed(version=True), "canonical"),
        (sealed(version=1.0), "canonical"),
        (sealed(version=2), "version 2, not 1"),
        (sealed(key=None), "not of the tuner"),
        (sealed(key={}), "declared"),
        (sealed(key={"declared": [1, 1, 1]}), "missing"),
        (sealed(key={**to_json(tuning_record())["key"], "program": "../.."}), "64 hexadecimal digits"),
        (sealed(key={**to_json(tuning_record())["key"], "more": 1}), "more"),
        (sealed(size=0), "Candidate.size = 0"),
        (sealed(size=True), "Candidate.size = True"),
        (sealed(profile=None), "Candidate.profile"),
        (sealed(kind="guess"), "guess"),
        (sealed(run=1), "TuningRecord.run"),
        (sealed(place=1), "below 1"),
        (sealed(place=-1), "TuningRecord.place"),
        (sealed(samples=[0]), "TuningRecord.samples"),
        (sealed(samples=[1.5]), "TuningRecord.samples"),
        (sealed(samples=["1"]), "TuningRecord.samples"),
        (sealed(samples=1), "not iterable"),
        (sealed(matched=1), "TuningRecord.matched"),
        (sealed(matched=False), "TuningRecord.samples"),
        (sealed(at_s=2**64), "TuningRecord.at_s"),
    ],
)
def test_what_the_tuner_would_not_have_written_is_refused(text: str, why: str) -> None:
    with pytest.raises(MalformedJson, match=r"Fix: tune again") as caught:
        from_line(text)
    assert why in str(caught.value)


@pytest.mark.parametrize("missing", sorted(to_json(tuning_record())))
def test_a_record_without_one_of_its_fields_is_refused(missing: str) -> None:
    content = to_json(tuning_record())
    del content[missing]
    with pytest.raises(MalformedJson, match=missing):
        from_line(_FORM.seal(content))


@pytest.mark.parametrize("text", ["", "0" * 63, "0" * 65, "A" * 64, "0" * 62 + "/.", "0" * 64 + "\n"])
def test_a_key_is_of_a_program_that_has_a_digest(text: str) -> None:
    with pytest.raises(InvalidField, match="64 hexadecimal digits"):
        replace(tuning_key(), program=text)


def test_only_estimates_are_not_measured() -> None:
    assert [kind for kind in TimeKind if not kind.is_measured] == [TimeKind.ESTIMATED]


@pytest.mark.parametrize(
    ("candidate", "text"), [(Candidate(32), "workgroup 32"), (Candidate(32, "no_vectors"), "workgroup 32, no_vectors")]
)
def test_a_candidate_is_named_by_what_it_changes(candidate: Candidate, text: str) -> None:
    assert str(candidate) == text


def test_a_bucket_holds_less_than_a_factor_of_two() -> None:
    edges = [lanes for lanes in range(1, 4097) if bucket_of(lanes) != bucket_of(lanes - 1)]
    assert edges == [2**power for power in range(13)]


def test_merging_keeps_the_latest_runs_of_a_candidate() -> None:
    runs = [tuning_record(number) for number in range(KEPT.of_a_candidate + 3)]
    other = tuning_record(candidate=Candidate(32))
    assert merge(runs, [other]) == (*runs[:2:-1], other)


def test_merging_keeps_the_latest_records() -> None:
    def run(number: int) -> TuningRecord:
        return tuning_record(number, candidate=Candidate(number + 1))

    records = [run(number) for number in range(KEPT.in_all + 2)]
    assert set(merge(records)) == set(records[2:])
