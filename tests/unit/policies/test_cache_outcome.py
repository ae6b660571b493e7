"""Every miss has a reason, and it is that of the nearest stored key."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyre.domain.artifact_key import FIELDS, ArtifactKey, ArtifactKind, facts
from vyre.domain.specialization import SpecMap, SpecValue
from vyre.policies.caching.cache_outcome import (
    ABSENT,
    LISTED,
    SHOWN,
    FieldChange,
    Miss,
    MissCause,
    changes_between,
    explain_miss,
)

KEY: Final = ArtifactKey(
    kind=ArtifactKind.CUBIN,
    target="sm_90",
    device=facts({"sm": "90"}),
    driver="13000",
    tool="ptxas 13.0.88",
    emitter=b"\x11" * 32,
    policy=facts({"assume": "", "pointer_table": "none"}),
    program=b"\xab" * 32,
    interface=("0 x", "1 y"),
    workgroup=(64, 1, 1),
    spec=SpecMap({"tile": 16}).canonical_bytes(),
)
CHANGES: Final[dict[str, tuple[Any, str]]] = {
    "target": ("sm_120", "target: sm_120 -> sm_90"),
    "device": (facts({"sm": "120"}), "device sm: 120 -> 90"),
    "driver": ("12080", "driver: 12080 -> 13000"),
    "tool": ("ptxas 12.9.41", "tool: ptxas 12.9.41 -> ptxas 13.0.88"),
    "emitter": (b"\x22" * 32, f"source of the emitter: {'22' * 8} -> {'11' * 8}"),
    "policy": (facts({"assume": "noalias", "pointer_table": "none"}), "policy assume: noalias -> "),
    "interface": (("0 x", "1 out"), "buffers: 0 x, 1 out -> 0 x, 1 y"),
    "workgroup": ((128, 1, 1), "workgroup: 128 x 1 x 1 -> 64 x 1 x 1"),
    "spec": (SpecMap({"tile": 32}).canonical_bytes(), "spec value tile: u32 0x20 -> u32 0x10"),
}
"""By field, another value, and what is said when a key with it is stored."""
keys: Final = st.fixed_dictionaries({name: st.sampled_from((getattr(KEY, name), CHANGES[name][0])) for name in CHANGES})
stored: Final = st.lists(keys.map(lambda values: replace(KEY, **values)), max_size=5)


def test_every_field_has_a_case() -> None:
    assert {*CHANGES, "kind", "program"} == set(FIELDS)


@pytest.mark.parametrize("field", CHANGES)
def test_a_changed_field_is_named(field: str) -> None:
    value, text = CHANGES[field]
    miss = explain_miss(KEY, [replace(KEY, **{field: value})])
    assert miss.cause is MissCause.CHANGED
    assert miss.fields == (field,)
    assert str(miss.why) == f"changed: {text}"


def test_nothing_of_the_program_is_stored() -> None:
    others = [replace(KEY, program=b"\xcd" * 32), replace(KEY, kind=ArtifactKind.PTX)]
    for neighbours in ([], others):
        miss = explain_miss(KEY, neighbours)
        assert miss == Miss(MissCause.NEVER_SEEN, ())
        assert str(miss.why) == "never seen: no cubin of program abababababababab is stored"


def test_the_key_itself_is_stored() -> None:
    miss = explain_miss(KEY, [replace(KEY, driver="12080"), KEY])
    assert miss == Miss(MissCause.UNUSABLE, ())
    assert str(miss.why) == "unusable: stored under this key, but it could not be read"


def test_the_nearest_key_is_compared() -> None:
    far = replace(KEY, driver="12080", tool="ptxas 12.9.41")
    near = replace(KEY, target="sm_100")
    assert explain_miss(KEY, [far, near]).fields == explain_miss(KEY, [near, far]).fields == ("target",)


def test_each_fact_and_each_constant_counts_as_a_field() -> None:
    two_facts = replace(KEY, policy=facts({"assume": "noalias", "pointer_table": "true"}))
    two_fields = replace(KEY, driver="12080", tool="ptxas 12.9.41")
    one_fact_two_fields = replace(two_fields, policy=facts({"assume": "noalias", "pointer_table": "none"}))
    assert explain_miss(KEY, [one_fact_two_fields, two_facts]).fields == ("policy",)


@given(neighbours=stored, data=st.data())
def test_the_order_of_neighbours_does_not_matter(neighbours: list[ArtifactKey], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(neighbours))
    one, other = explain_miss(KEY, neighbours), explain_miss(KEY, shuffled)
    assert one == other
    assert str(one.why) == str(other.why)


@given(neighbours=stored.filter(bool))
def test_no_neighbour_is_nearer(neighbours: list[ArtifactKey]) -> None:
    miss = explain_miss(KEY, neighbours)
    assert len(miss.changes) == min(len(changes_between(key, KEY)) for key in neighbours)
    assert (miss.cause is MissCause.UNUSABLE) is (KEY in neighbours) is (not miss.changes)


@given(key=keys.map(lambda values: replace(KEY, **values)))
def test_what_differs_is_told_in_the_order_of_the_fields(key: ArtifactKey) -> None:
    assert tuple(dict.fromkeys(c.field for c in changes_between(key, KEY))) == key.differences(KEY)


def test_facts_and_constants_that_come_or_go_are_told() -> None:
    key = replace(KEY, policy=facts({"assume": ""}), spec=SpecMap({"tile": 16, "fast": True}).canonical_bytes())
    assert (
        str(explain_miss(KEY, [key]).why) == "changed: policy pointer_table: - -> none; spec value fast: bool 0x1 -> -"
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"interface": ("a, b",)}, {"interface": ("a", "b")}),
        ({"emitter": b"\x11" * 31}, {"emitter": b"\x11" * 32}),
        ({"policy": (("a", "1"), ("a", "2"))}, {"policy": (("a", "2"),)}),
        ({"spec": b""}, {"spec": SpecMap().canonical_bytes()}),
        ({"spec": b"not canonical"}, {"spec": SpecMap({"tile": 16}).canonical_bytes()}),
        ({"spec": SpecMap({"t": SpecValue.u32(1)}).canonical_bytes() + b"x"}, {"spec": b""}),
    ],
)
def test_whatever_differs_is_told_even_if_it_is_written_alike(one: dict[str, Any], other: dict[str, Any]) -> None:
    changes = changes_between(replace(KEY, **one), replace(KEY, **other))
    assert {change.field for change in changes} == set(one)
    assert all(change.stored != change.wanted for change in changes)


def test_the_reason_is_one_line_of_bounded_length() -> None:
    names = {f"n{i}": "x" * 100 for i in range(7)}
    long = replace(KEY, policy=facts({**dict(KEY.policy), **names, "{}": "line\nbreak"}))
    text = str(explain_miss(KEY, [long]).why)
    assert text.startswith("changed: policy n0: " + "x" * (SHOWN - 3) + "... -> -; ")
    assert text.endswith(f"; and {8 - LISTED} more")
    assert "\n" not in text
    broken = replace(KEY, interface=("0 a\nb {} \ud800",))
    assert str(explain_miss(KEY, [broken]).why) == "changed: buffers: 0 a\\nb {} \\ud800 -> 0 x, 1 y"


def test_a_value_that_just_fits_is_shown_whole() -> None:
    for length, shown in ((SHOWN, "d" * SHOWN), (SHOWN + 1, "d" * (SHOWN - 3) + "...")):
        why = explain_miss(KEY, [replace(KEY, driver="d" * length)]).why
        assert str(why) == f"changed: driver: {shown} -> 13000"


def test_as_many_changes_as_fit_are_all_listed() -> None:
    found = replace(KEY, **{name: CHANGES[name][0] for name in list(CHANGES)[:LISTED]})
    assert "more" not in str(explain_miss(KEY, [found]).why)


def test_changes_of_the_remaining_fields() -> None:
    other = replace(KEY, program=b"\xcd" * 32, kind=ArtifactKind.PTX)
    assert changes_between(other, KEY) == (
        FieldChange("kind", "", "ptx", "cubin"),
        FieldChange("program", "", "cd" * 8, "ab" * 8),
    )


def test_values_that_are_written_alike_are_shown_as_they_are() -> None:
    nearly = replace(KEY, emitter=b"\x11" * 31 + b"\x12")
    assert changes_between(nearly, KEY) == (FieldChange("emitter", "", "11" * 31 + "12", "11" * 32),)
    broken = replace(KEY, spec=b"no spec")
    assert changes_between(broken, replace(KEY, spec=b"")) == (FieldChange("spec", "", b"no spec".hex(), ABSENT),)


def test_what_cannot_be_printed_is_escaped() -> None:
    assert str(FieldChange("tool", "", "a\n\u200bb", "é \\ b")) == "tool: a\\n\\u200bb -> é \\ b"
