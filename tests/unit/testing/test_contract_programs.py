"""The files of programs of the backend contract: rules, cases, frames, and what is wrong about them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from vyre.adapters.discovery import load_catalog
from vyre.testing.backend_contract import Subject, programs, run_case
from vyre.testing.backend_contract.case import Group

TEXT = """;; frame
workgroup_size 4, 1, 1
buffer x @0 read u32[runtime]
buffer y @1 write u32[runtime] like x
body { let i = gid.x ... }
;; rule sums: Sums are right.
;; case right
; run: x=[1, 2] -> y=[2, 3]
y[i] = x[i] + 1u
;; case wrong
; run: x=[1, 2] -> y=[2, 3]
; run: x=[1, 2] -> y=[2, 4]
y[i] = x[i] + 1u
;; rule traps needs supports_trap_propagation: A trap is told.
; run: -> error TRAP tag="a"
workgroup_size 1, 1, 1
buffer y @0 write u32[1]
body { trap(0u, "b") }
;; rule silent: A trap is missed.
; run: x=1 -> error TRAP
y[i] = 1u
"""


@pytest.fixture
def subject() -> Iterator[Subject]:
    registration = load_catalog().get("reference")
    assert registration is not None
    with Subject(registration) as subject:
        yield subject


def read(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Group:
    (folder / "group.vyre").write_text(text)
    monkeypatch.setattr(programs, "_FOLDER", folder)
    group = Group("group", "memory")
    programs.add_programs(group)
    return group


def test_cases_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subject: Subject) -> None:
    cases = read(TEXT, tmp_path, monkeypatch).cases
    assert [(case.id, case.rule, case.needs) for case in cases] == [
        ("group.sums.right", "Sums are right.", ("memory",)),
        ("group.sums.wrong", "Sums are right.", ("memory",)),
        ("group.traps", "A trap is told.", ("memory", "supports_trap_propagation")),
        ("group.silent", "A trap is missed.", ("memory",)),
    ]
    assert [run_case(case, subject).reason for case in cases] == [
        "",
        "Violation: `y` is [2, 3], expected [2, 4] (first at element 1)",
        "Violation: TRAP has tag='b'; expected 'a'",
        "Violation: nothing is raised, VyreError is expected",
    ]


def test_a_line_that_is_no_part_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"group\.vyre: sums is followed by a line with ;;"):
        read(TEXT.replace(";; case wrong", ";; Case wrong"), tmp_path, monkeypatch)
