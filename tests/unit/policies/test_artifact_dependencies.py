"""What rests on what changed, and the path that leads there."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from vyre.domain.artifact_key import FIELDS, ArtifactKey, ArtifactKind, facts
from vyre.domain.specialization import SpecMap
from vyre.policies.caching.artifact_dependencies import Change, Dependency, affected_artifacts, facts_of

CUBIN: Final = ArtifactKey(
    kind=ArtifactKind.CUBIN,
    target="sm_90",
    device=facts({"sm": "90"}),
    driver="13000",
    tool="ptxas 13.0.88 -O3",
    emitter=b"\x11" * 32,
    policy=facts({"assume": "noalias"}),
    program=b"\xab" * 32,
    interface=("0 x",),
    workgroup=(64, 1, 1),
    spec=SpecMap({"tile": 16}).canonical_bytes(),
)
PTX: Final = replace(CUBIN, kind=ArtifactKind.PTX, device=(), driver="", tool="")
OTHER: Final = ArtifactKey(kind=ArtifactKind.PTX, program=b"\xcd" * 32, emitter=b"\x22" * 32, target="sm_120")
STORED: Final = (CUBIN, OTHER, PTX)
D = Dependency
OF_MACHINE_CODE: Final = (D.DEVICE, D.DRIVER, D.TOOL)


def gone(*changes: Change, named: tuple[ArtifactKey, ...] = ()) -> list[tuple[ArtifactKey, str]]:
    return [(found.key, str(found.why)) for found in affected_artifacts(STORED, changes, named)]


@pytest.mark.parametrize(
    ("change", "expected", "why"),
    [
        (Change(D.PROGRAM, "ab" * 32), [CUBIN, PTX], "program abababababab"),
        (Change(D.PROGRAM, "abab"), [CUBIN, PTX], "program abababababab"),
        (Change(D.PROGRAM, "ba"), [], ""),
        (Change(D.PROGRAM, "ab", others=True), [OTHER], "program cdcdcdcdcdcd"),
        (Change(D.SPEC, "u32 0x10"), [CUBIN, PTX], "spec tile u32 0x10"),
        (Change(D.SPEC, "u32 0x20"), [], ""),
        (Change(D.EMITTER, "11" * 32), [CUBIN, PTX], "emitter 111111111111"),
        (Change(D.EMITTER, "11" * 32, others=True), [OTHER], "emitter 222222222222"),
        (Change(D.TARGET, "sm_120"), [OTHER], "target sm_120"),
        (Change(D.TARGET, "sm_12"), [], ""),
        (Change(D.POLICY, "noalias"), [CUBIN, PTX], "policy assume noalias"),
        (Change(D.DEVICE, "90"), [CUBIN], "device sm 90"),
        (Change(D.DRIVER, "13000"), [CUBIN], "driver 13000"),
        (Change(D.DRIVER, "13000", others=True), [], ""),
        (Change(D.DRIVER, "13001", others=True), [CUBIN], "driver 13000"),
        (Change(D.TOOL, "ptxas 13.0.88 -O3"), [CUBIN], "tool ptxas 13.0.88 -O3"),
        (Change(D.TOOL, "ptxas 13.0.88"), [CUBIN], "tool ptxas 13.0.88 -O3"),
        (Change(D.TOOL, "ptxas"), [CUBIN], "tool ptxas 13.0.88 -O3"),
        (Change(D.TOOL, "ptxas 13.0.8"), [], ""),
        (Change(D.TOOL, "ptxas 13.0.88 -O3 -g"), [], ""),
    ],
)
def test_a_change_takes_what_rests_on_it(change: Change, expected: list[ArtifactKey], why: str) -> None:
    """``why``: for the nearest; machine code that does not rest on it directly does so by its text."""
    through = why if change.field in OF_MACHINE_CODE else f"{why} -> ptx {PTX.digest.hex()[:12]}"
    assert gone(change) == [(key, through if key is CUBIN else why) for key in expected]


def test_a_named_key_takes_what_was_made_of_it() -> None:
    text = f"ptx {PTX.digest.hex()[:12]}"
    assert gone(named=(PTX,)) == [(CUBIN, text), (PTX, "named by its key")]
    assert gone(named=(CUBIN,)) == [(CUBIN, "named by its key")]


def test_machine_code_rests_on_text_that_is_not_stored() -> None:
    text = f"ptx {PTX.digest.hex()[:12]}"
    for changes, named, why in (
        ([], [PTX], text),
        ([Change(D.EMITTER, "11")], [], f"emitter {'1' * 12} -> {text}"),
    ):
        (found,) = affected_artifacts([CUBIN], changes, named)
        assert (found.key, str(found.why)) == (CUBIN, why)


def test_machine_code_of_other_text_stays() -> None:
    for other in (
        replace(PTX, spec=b""),
        replace(PTX, workgroup=(32, 1, 1)),
        replace(PTX, interface=()),
        replace(PTX, driver="13000"),
    ):
        assert affected_artifacts([CUBIN], (), [other]) == ()


def test_several_changes_take_what_either_takes() -> None:
    found = gone(Change(D.DRIVER, "13000"), Change(D.TARGET, "sm_120"))
    assert found == [(CUBIN, "driver 13000"), (OTHER, "target sm_120")]


def test_nothing_takes_nothing() -> None:
    assert gone() == []
    assert affected_artifacts([], [Change(D.TARGET, "sm_90")], [PTX]) == ()


def test_an_entry_that_is_met_twice_goes_once() -> None:
    assert len(affected_artifacts([PTX, PTX], [Change(D.TARGET, "sm_90")])) == 1


def test_the_shortest_path_is_told_and_of_equal_ones_the_first() -> None:
    found = gone(Change(D.TARGET, "sm_90"), Change(D.EMITTER, "11"), Change(D.TOOL, "ptxas"))
    assert found == [(CUBIN, "tool ptxas 13.0.88 -O3"), (PTX, "emitter " + "1" * 12)]


def test_fields_that_describe_the_launch_do_not_change() -> None:
    assert {field.value for field in Dependency} == set(FIELDS) - {"kind", "interface", "workgroup"}


def test_an_empty_field_is_no_fact() -> None:
    assert [str(fact) for fact in facts_of(OTHER)] == [
        "program cdcdcdcdcdcd",
        "emitter 222222222222",
        "target sm_120",
    ]


def test_a_fact_is_shown_on_one_short_line() -> None:
    (fact,) = (f for f in facts_of(replace(OTHER, tool="a\n" + "b" * 99)) if f.field is D.TOOL)
    assert str(fact) == "tool a\\n" + "b" * 37 + "..."
