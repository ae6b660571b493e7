"""Verdicts of the validator, remembered for other processes."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from vyre import Program, ProgramBuilder, u32
from vyre.app.verdicts import require_valid, verdict_key
from vyre.domain.artifact_key import ArtifactKind
from vyre.domain.program_report import InvalidProgram, Report
from vyre.domain.validation import validator
from vyre.domain.validation.known import order_sensitive
from vyre.domain.validation.validator import check_rules, validate
from vyre.testing.fakes import MemoryArtifactStore


@cache
def text(name: str = "y") -> str:
    with ProgramBuilder("p", workgroup=4) as p:
        y = p.inout(name, u32)
        y[p.global_id()] = p.let(p.global_id() + 1)
    return p.build().to_text()


@cache
def atomic_text(ordered: bool) -> str:
    with ProgramBuilder("a", workgroup=4) as p:
        x, y = p.inout("x", u32), p.inout("y", u32)
        old = x.atomic_add(0, 1)
        y[p.global_id()] = old if ordered else 1
    return p.build().to_text()


def program(name: str = "y") -> Program:
    """As new: the builder has validated it."""
    return Program.from_text(text(name))


def invalid() -> Program:
    good = program()
    return replace(good, workgroup_size=(0, 1, 1))


@pytest.fixture
def validations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the programs that were validated, but for those that are built."""
    for each in (text("y"), atomic_text(False), atomic_text(True)):
        assert each
    seen: list[str] = []

    def watched(each: Program) -> Report:
        seen.append(each.name or "")
        return check_rules(each)

    monkeypatch.setattr(validator, "check_rules", watched)
    return seen


def test_a_valid_program_is_validated_once_for_all_processes(validations: list[str]) -> None:
    store = MemoryArtifactStore()
    require_valid(program(), lambda: store)
    require_valid(program(), lambda: store)
    assert validations == ["p"]
    assert [key.kind for key in store] == [ArtifactKind.VERDICT]


def test_a_program_that_is_known_asks_no_store(validations: list[str]) -> None:
    def never() -> MemoryArtifactStore:
        raise AssertionError("the store was asked for")

    known = program()
    require_valid(known)
    require_valid(known, never)
    assert validations == ["p"]
    built = program()
    assert validate(built).ok
    require_valid(built, never)


def test_without_a_store_every_program_is_validated(validations: list[str]) -> None:
    require_valid(program(), lambda: None)
    require_valid(program())
    assert validations == ["p", "p"]


def test_an_invalid_program_is_refused_each_time_and_nothing_is_stored() -> None:
    store = MemoryArtifactStore()
    for _ in range(2):
        with pytest.raises(InvalidProgram) as caught:
            require_valid(invalid(), lambda: store)
        assert str(caught.value) == str(_refusal(invalid()))
    assert list(store) == []


def _refusal(each: Program) -> InvalidProgram:
    with pytest.raises(InvalidProgram) as caught:
        validate(each).raise_if_invalid()
    return caught.value


def test_a_program_that_cannot_be_written_down_is_left_to_the_validator() -> None:
    twice = replace(program(), buffers=program().buffers * 2)
    assert verdict_key(twice) is None
    store = MemoryArtifactStore()
    with pytest.raises(InvalidProgram, match="buffer"):
        require_valid(twice, lambda: store)
    assert list(store) == []


@pytest.mark.parametrize("ordered", [False, True])
def test_whether_the_order_of_atomics_counts_is_part_of_the_verdict(validations: list[str], ordered: bool) -> None:
    store = MemoryArtifactStore()
    require_valid(Program.from_text(atomic_text(ordered)), lambda: store)
    known = Program.from_text(atomic_text(ordered))
    require_valid(known, lambda: store)
    assert order_sensitive(known) is ordered
    assert validations == ["a"]


def test_names_are_part_of_the_verdict() -> None:
    one, other = verdict_key(program("y")), verdict_key(program("z"))
    assert program("y").digest == program("z").digest
    assert one is not None
    assert other is not None
    assert one.digest != other.digest
