"""The laws of subgroup operations: each holds in every lane, and the checker refuses those that only seem to."""

from __future__ import annotations

import json

import pytest

from vyre.app.cli import dialects, main
from vyre.domain.dialects.laws.subgroups import LANES, SUBGROUP_LAWS, SubgroupLaw, check_lanes
from vyre.domain.ir.types import ScalarType

U32, F32, BOOL = ScalarType.U32, ScalarType.F32, ScalarType.BOOL


@pytest.mark.parametrize("law", SUBGROUP_LAWS, ids=[law.name for law in SUBGROUP_LAWS])
def test_a_law_holds(law: SubgroupLaw) -> None:
    law.validate()
    for dtype in law.types:
        assert check_lanes(law, dtype) is None


def test_names_are_given_once() -> None:
    assert len({law.name for law in SUBGROUP_LAWS}) == len(SUBGROUP_LAWS)


FALSE = {
    "all vote, but lanes are missing": ("subgroup_ballot(true)", "-1", U32),
    "a sum of as many ones as the subgroup is wide": ("subgroup_add(1)", str(LANES), U32),
    "a number of a lane that is missing": ("subgroup_shuffle(1, k)", "1", U32),
    "the first lane's value is everybody's": ("subgroup_shuffle(x, 0u)", "x", U32),
    "the last lane's value where all have it": ("subgroup_shuffle(x, 31u)", "x", U32),
    "the order of two shuffles": ("subgroup_shuffle(subgroup_shuffle(x, k), j)", "subgroup_shuffle(x, k)", U32),
    "a factor that differs between lanes": ("subgroup_add(x) * y", "subgroup_add(x * y)", U32),
    "a product of sums": ("subgroup_add(x) * subgroup_add(y)", "subgroup_add(x * y)", U32),
    "a minus sign of a vote": ("bitnot(subgroup_ballot(p))", "subgroup_ballot(not(p))", U32),
    "votes that are added": ("subgroup_ballot(p) + subgroup_ballot(q)", "subgroup_ballot(p or q)", U32),
    "sums that round": ("subgroup_add(x) + subgroup_add(y)", "subgroup_add(x + y)", F32),
    "a sum of -0": ("subgroup_add(-0.0)", "-0.0", F32),
    "a sum of one value": ("subgroup_add(x)", "x", U32),
}


@pytest.mark.parametrize("name", FALSE)
def test_a_law_that_does_not_hold_is_refused_with_lanes(name: str) -> None:
    before, after, dtype = FALSE[name]
    holes = {"k": U32, "j": U32, "p": BOOL, "q": BOOL}
    used = {
        hole: found
        for hole, found in holes.items()
        if hole in before.replace("(", " ").replace(")", " ").replace(",", " ").split()
    }
    uniform = frozenset({"x"}) if name.startswith("the last lane") else frozenset[str]()
    found = check_lanes(SubgroupLaw("false.law", before, after, frozenset({dtype}), used, uniform=uniform), dtype)
    assert found is not None and found.before != found.after and "is not" in str(found)


@pytest.mark.parametrize("law", SUBGROUP_LAWS, ids=[law.name for law in SUBGROUP_LAWS])
def test_a_law_with_one_word_changed_is_refused(law: SubgroupLaw) -> None:
    changes = {"x + y": "x - y", "x - y": "x + y", "p and q": "p or q", "p or q": "p and q", "p != q": "p == q"}
    changed = changes.get(law.after[13:-1]) or changes.get(law.after[16:-1])
    after = (
        f"{law.after.partition('(')[0]}({changed})" if changed else {"0": "1", "0.0": "1.0", "x": "0"}.get(law.after)
    )
    dtype = min(law.types, key=lambda found: found.tag)
    if dtype.is_float and after == "0":
        after = "0.0"
    assert after is not None and after != law.after
    wrong = SubgroupLaw("wrong.law", law.before, after, frozenset({dtype}), law.holes, uniform=law.uniform)
    assert check_lanes(wrong, dtype) is not None


def test_the_command_checks_them(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["dialects", "verify", "subgroup_ballot", "--list"]) == 0
    told = capsys.readouterr().out
    assert "subgroup_ballot.none at u32: holds in every lane" in told
    assert "4 laws of subgroup operations at 4 types: 4 hold in every lane, 0 refused" in told
    false = SubgroupLaw("subgroup_ballot.all", "subgroup_ballot(true)", "-1", frozenset({U32}))
    monkeypatch.setattr(dialects, "SUBGROUP_LAWS", (false,))
    assert main(["dialects", "verify", "subgroup_ballot", "--json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)["subgroups"]
    assert found["refused"] and "in 1 lanes in the model" in found["counterexample"]
