"""The registry: what may be registered, what is found, and that nothing is ever half changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import EntryPoint
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vyre
from support.called_programs import PROGRAMS
from support.fuzzing.form_corpus import lit, program, store
from vyre.app.dialects import current
from vyre.app.dialects.loading import BAD_ENTRY_POINT, load_entry_points, load_manifests
from vyre.app.dialects.registry import DialectRegistry
from vyre.domain.dialects.core import FORMS, Operator, core_dialect, operator_id
from vyre.domain.dialects.laws.catalogue import LAWS
from vyre.domain.dialects.migration import Deprecation, Migration, Migrations, OperationVersion, deprecations_in
from vyre.domain.dialects.operations import Category, Dialect, Lowering, Operation
from vyre.domain.errors import BuildError, DuplicateOperation, InvalidDialect, MigrationFailed, UnknownOperation
from vyre.domain.ir.builder import ProgramBuilder
from vyre.domain.ir.definitions import Definition, Parameter, Version
from vyre.domain.ir.expr import (
    CHILD_FIELDS,
    Atomic,
    Binary,
    Call,
    Expr,
    Load,
    Native,
    SubgroupLane,
    SubgroupReduce,
    SubgroupSize,
    Unary,
    Var,
)
from vyre.domain.ir.operators import ATOMIC_MEANING, BINARY, SUBGROUP, UNARY, BinaryOp
from vyre.domain.ir.types import EXECUTABLE_TYPES, NARROW_TYPES, ScalarType, u32
from vyre.domain.program_report import InvalidProgram
from vyre.domain.validation.findings import Findings
from vyre.domain.validation.typing import ExpressionTyper, Local

MIX, HASH, EVEN = PROGRAMS["let"].called.definitions


def dialect(*definitions: Definition, name: str = "acme") -> Dialect:
    return Dialect(name, Version(1), tuple(map(Operation.of, definitions)))


def unary(name: str, result: Expr) -> Definition:
    return Definition(name, Version(1), (Parameter("x", u32),), u32, (), result)


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> DialectRegistry:
    """The registry of the process, empty for one test."""
    made = DialectRegistry()
    monkeypatch.setattr(current, "dialect_registry", lambda: made)
    return made


def test_operations_are_found_with_what_they_call() -> None:
    registry = DialectRegistry()
    registry.register(dialect(HASH, MIX))
    snapshot = registry.snapshot
    assert snapshot.definitions_of("acme.hash") == (MIX, HASH)
    assert snapshot.contains("acme.mix") and not snapshot.contains("acme.other")
    assert snapshot.operation("acme.other") is None and snapshot.dialect("other") is None
    assert [each.id for each in snapshot.operations_in("acme")] == ["acme.hash", "acme.mix"]
    assert snapshot.operations_in("other") == ()
    with pytest.raises(UnknownOperation, match=r"acme\.other"):
        snapshot.definitions_of("acme.other")


def test_an_operation_without_definition_cannot_be_called() -> None:
    registry = DialectRegistry()
    registry.register(core_dialect())
    with pytest.raises(UnknownOperation, match="has no definition"):
        registry.snapshot.definitions_of("core.add")


def test_duplicates_name_both_registrants_and_change_nothing() -> None:
    registry = DialectRegistry()
    registry.register(dialect(MIX), registrant="the first")
    before = registry.snapshot
    nested = Dialect("acme.nn", Version(1), (Operation.of(unary("acme.nn.a", Var("x"))),))
    clash = Dialect("acme", Version(1), (Operation.of(EVEN),))
    with pytest.raises(DuplicateOperation) as error:
        registry.register(nested, clash, registrant="the second")
    assert (error.value.first, error.value.second) == ("acme of the first", "acme of the second")
    assert registry.snapshot is before
    with pytest.raises(DuplicateOperation, match=r"acme\.mix"):
        dialect(MIX, MIX)
    registry.register(Dialect("acme.nn", Version(1), (Operation.of(unary("acme.nn.a", Var("x"))),)))
    inner = Dialect("acme.nn.deep", Version(1), ())
    registry.register(inner)
    assert before.dialect("acme.nn") is None and registry.snapshot.dialect("acme.nn.deep") is inner


def test_an_operation_of_two_dialects_is_a_duplicate() -> None:
    registry = DialectRegistry()
    registry.register(dialect(unary("acme.nn.a", Var("x"))))
    with pytest.raises(DuplicateOperation) as error:
        registry.register(Dialect("acme.nn", Version(1), (Operation.of(unary("acme.nn.a", Var("x"))),)))
    assert error.value.operation == "acme.nn.a"


@pytest.mark.parametrize(
    ("definitions", "error", "message"),
    [
        ((unary("acme.a", Call("acme.b", (Var("x"),))),), UnknownOperation, r"acme\.b"),
        ((unary("acme.a", Call("acme.a", (Var("x"),))),), InvalidDialect, r"acme\.a -> acme\.a"),
        (
            (unary("acme.a", Call("acme.b", (Var("x"),))), unary("acme.b", Call("acme.a", (Var("x"),)))),
            InvalidDialect,
            r"acme\.a -> acme\.b -> acme\.a",
        ),
    ],
)
def test_calls_that_lead_nowhere_or_in_circles_are_refused(
    definitions: tuple[Definition, ...], error: type[Exception], message: str
) -> None:
    registry = DialectRegistry()
    with pytest.raises(error, match=message):
        registry.register(dialect(*definitions))
    assert not registry.snapshot.dialects


def test_a_shared_operation_is_no_circle() -> None:
    registry = DialectRegistry()
    shared = unary("acme.s", Var("x"))
    left, right = (unary(f"acme.{name}", Call("acme.s", (Var("x"),))) for name in "lr")
    top = unary("acme.t", Binary(BinaryOp.ADD, Call("acme.l", (Var("x"),)), Call("acme.r", (Var("x"),))))
    registry.register(dialect(top, left, right, shared))
    assert set(registry.snapshot.definitions_of("acme.t")) == {shared, left, right, top}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Dialect("", Version(1), ()), "no id of a dialect"),
        (lambda: Dialect("9x", Version(1), ()), "no id of a dialect"),
        (lambda: dialect(MIX, name="other"), "no id of an operation"),
        (lambda: Dialect("acme", Version(1), (replace(Operation.of(MIX), id="acme.x"),)), "the definition of"),
    ],
)
def test_malformed_dialects_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidDialect, match=message):
        make()


def test_a_lowering_belongs_to_one_definition() -> None:
    written = Lowering.of(MIX, MIX)
    operation = replace(Operation.of(MIX), lowerings={"cpu": written})
    assert operation.lowering("cpu") is written and operation.lowering("cuda") is None
    changed = replace(operation, definition=replace(MIX, version=Version(2)))
    assert changed.lowering("cpu") is None


@pytest.mark.parametrize("definitions", [(), (replace(MIX, id="acme.other"),), (replace(MIX, parameters=()),)])
def test_a_lowering_replaces_its_operation(definitions: tuple[Definition, ...]) -> None:
    with pytest.raises(InvalidDialect, match="no replacement of its definition"):
        Operation.of(MIX, lowerings={"cpu": Lowering.of(MIX, *definitions)})


def test_every_operator_of_the_language_is_an_operation() -> None:
    core = core_dialect()
    operators: list[Operator] = [*BINARY, *UNARY, *ATOMIC_MEANING, *SUBGROUP, *FORMS]
    by_id = {each.id: each for each in core.operations}
    assert set(by_id) == set(map(operator_id, operators)) and len(by_id) == len(operators)
    for op, row in BINARY.items():
        operation = by_id[operator_id(op)]
        assert operation.summary == row.meaning and operation.signature.inputs[0].types == row.operands
        assert operation.category is Category.INTRINSIC
    assert all(each.summary and each.cost >= 1 for each in core.operations)


def test_no_expression_with_operands_is_left_out() -> None:
    # Operators of other tables; memory; definitions and their lowerings.
    elsewhere = {Binary, Unary, Atomic, SubgroupReduce, Load, Call, Native}
    assert set(FORMS) == {node for node, kids in CHILD_FIELDS.items() if kids} - elsewhere | {
        SubgroupLane,
        SubgroupSize,
    }
    for node, form in FORMS.items():
        assert len(form.inputs) == len(CHILD_FIELDS[node])


def test_each_law_belongs_to_the_operator_with_which_it_begins() -> None:
    by_id = {each.id: each.laws for each in core_dialect().operations}
    assert Counter(law.name for laws in by_id.values() for law in laws) == Counter(law.name for law in LAWS)
    for name, beginning in (("add", "add."), ("select", "select."), ("fma", "fma."), ("cast", "cast.")):
        assert any(law.name.startswith(beginning) for law in by_id[f"core.{name}"])
    assert by_id["core.subgroup_add"] == ()  # laws compare values of one lane


@pytest.mark.parametrize("node", FORMS, ids=lambda node: str(operator_id(node)))
def test_the_types_of_a_form_are_those_that_the_validator_takes(node: type[Any]) -> None:
    form, made = FORMS[node], node.__dataclass_fields__
    accepted: set[ScalarType] = set()
    results: set[ScalarType] = set()
    for types in product(EXECUTABLE_TYPES, repeat=len(form.inputs)):
        for target in EXECUTABLE_TYPES + NARROW_TYPES if "dtype" in made else (None,):
            findings = Findings()
            typer = ExpressionTyper({}, findings)
            operands = [Var(f"x{place}") for place in range(len(types))]
            for operand, dtype in zip(operands, types, strict=True):
                typer.locals.declare(operand.name, Local(dtype))
            found = typer.type_of(node(*([] if target is None else [target]), *operands))
            if found is not None and findings.report(order_sensitive=False).ok:
                assert all(dtype in slot.types for dtype, slot in zip(types, form.inputs, strict=True))
                accepted.update(types[:1])
                results.add(found)
    assert results == form.result
    assert not form.inputs or accepted == form.inputs[0].types


# Builders and sessions.


def test_builders_and_sessions_find_registered_operations(registry: DialectRegistry) -> None:
    registry.register(dialect(MIX, HASH))
    with ProgramBuilder(workgroup=64) as p:
        y = p.inout("y", u32)
        y[p.global_id()] = p.call("acme.hash", y[p.global_id()], 3)
    built = p.build()
    assert built.definitions == (MIX, HASH)
    bare = replace(built, definitions=())
    numbers = np.arange(64, dtype=np.uint32)
    with vyre.open("reference") as session:
        found = [bytes(session.dispatch(run, {"y": numbers})["y"]) for run in (built, bare)]
        with pytest.raises(InvalidProgram, match="V223"):
            session.dispatch(program(store(Call("acme.other", ()))), {"y": numbers}, grid=1)
    assert found[0] == found[1] != numbers.tobytes()


def test_a_call_of_an_unknown_operation_names_the_dialects_that_failed_to_load(
    registry: DialectRegistry, tmp_path: Path
) -> None:
    (tmp_path / "acme.toml").write_text('dialect = "acme"\nversion = "1.0"\nops = [')
    load_manifests(registry, str(tmp_path))
    asks = program(store(Call("acme.other", ())))
    with vyre.open("reference") as session, pytest.raises(InvalidProgram, match="V223") as caught:
        session.compile(asks)
    assert f"{tmp_path / 'acme.toml'}:1" in caught.value.message
    assert caught.value.report is not None and caught.value.report.errors[0].message in caught.value.message


def test_the_definition_of_a_program_beats_the_registry(registry: DialectRegistry) -> None:
    registry.register(dialect(unary("acme.f", lit(1))))
    own = unary("acme.f", lit(2))
    run = replace(program(store(Call("acme.f", (lit(0),)))), definitions=(own,))
    with ProgramBuilder(workgroup=1) as p:
        p.define(own)
        p.inout("y", u32)[0] = p.call("acme.f", 0)
    with vyre.open("reference") as session:
        for each in (run, p.build()):
            assert bytes(session.dispatch(each, {"y": np.zeros(1, np.uint32)}, grid=1)["y"])[0] == 2


def test_an_unknown_operation_is_a_typed_error(registry: DialectRegistry) -> None:
    with ProgramBuilder(workgroup=1) as p, pytest.raises(BuildError, match=r"acme\.none.*Fix: define it"):
        p.call("acme.none", 1)


@pytest.mark.parametrize("returns", ["a dialect", "a list", "nothing", "a number", "an error"])
def test_entry_points_register_or_are_diagnosed(returns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = DialectRegistry()
    made: dict[str, Callable[[DialectRegistry], object]] = {
        "a dialect": lambda _: dialect(MIX),
        "a list": lambda _: [dialect(MIX)],
        "nothing": lambda given: given.register(dialect(MIX)),
        "a number": lambda _: 3,
        "an error": lambda _: 1 // 0,
    }
    monkeypatch.setattr(EntryPoint, "load", lambda _: made[returns])
    point = EntryPoint("acme", "acme.package:dialect", "vyre.dialects")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [point] if group == "vyre.dialects" else [])
    load_entry_points(registry)
    is_good = returns not in ("a number", "an error")
    assert registry.snapshot.contains("acme.mix") is is_good
    assert [each.code for each in registry.snapshot.diagnostics] == ([] if is_good else [BAD_ENTRY_POINT])


# Migrations.


def at(version: str, name: str = "acme.f") -> OperationVersion:
    return OperationVersion(name, Version.of(version))


def same(arguments: tuple[Expr, ...]) -> tuple[Expr, ...]:
    return arguments


def test_chains_of_migrations_end_where_no_step_leads_on() -> None:
    chain = Migrations(
        [
            Migration(at("1.0.0"), at("2.0.0"), lambda given: (*given, lit(2))),
            Migration(at("2.0.0"), at("10.0.0", "acme.g"), lambda given: (*given, lit(3))),
        ]
    )
    assert chain.apply(at("1.0.0"), (lit(1),)) == (at("10.0.0", "acme.g"), (lit(1), lit(2), lit(3)))
    assert chain.apply(at("3.0.0"), (lit(1),)) == (at("3.0.0"), (lit(1),))


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([(at("1.0.0"), at("1.0.0"))], "lead back"),
        ([(at("1.0.0"), at("2.0.0")), (at("2.0.0"), at("1.0.0"))], "lead back"),
        ([(at("0.0.1"), at("1.0.0")), (at("1.0.0"), at("2.0.0")), (at("2.0.0"), at("1.0.0"))], "lead back"),
        ([(at("1.0.0"), at("2.0.0")), (at("1.0.0"), at("3.0.0"))], "two migrations"),
    ],
)
def test_migrations_without_an_end_are_refused(
    steps: list[tuple[OperationVersion, OperationVersion]], message: str
) -> None:
    registry = DialectRegistry()
    before = registry.snapshot
    with pytest.raises(InvalidDialect, match=message):
        registry.register(migrations=[Migration(source, target, same) for source, target in steps])
    assert registry.snapshot is before


OLD = unary("acme.f", Var("x"))
USER = unary("acme.user", Call("acme.f", (Call("acme.f", (Var("x"),)),)))
NEW = Definition(
    "acme.g",
    Version(2),
    (Parameter("x", u32), Parameter("by", u32)),
    u32,
    (),
    Binary(BinaryOp.MUL, Var("x"), Var("by")),
)


def test_stored_programs_are_moved_to_newer_definitions() -> None:
    registry = DialectRegistry()
    step = Migration(at("1.0.0"), at("2.0.0", "acme.g"), lambda given: (*given, lit(1)))
    registry.register(dialect(NEW), migrations=[step])
    old = replace(program(store(Call("acme.user", (Call("acme.f", (lit(7),)),)))), definitions=(OLD, USER))
    moved = registry.snapshot.migrated(old)
    assert [each.id for each in moved.definitions] == ["acme.g", "acme.user"]
    assert vyre.validate(moved).ok
    with vyre.open("reference") as session:
        y = {"y": np.zeros(1, np.uint32)}
        assert bytes(session.dispatch(moved, y, grid=1)["y"]) == bytes(session.dispatch(old, y, grid=1)["y"])
    assert registry.snapshot.migrated(moved) is moved


@pytest.mark.parametrize("rewrite", [lambda given: 1 // 0, lambda given: (3,), lambda given: None])
def test_a_failed_rewrite_leaves_the_program(rewrite: Callable[[object], object]) -> None:
    registry = DialectRegistry()
    registry.register(dialect(NEW), migrations=[Migration(at("1.0.0"), at("2.0.0", "acme.g"), rewrite)])  # type: ignore[arg-type]
    old = replace(program(store(Call("acme.f", (lit(7),)))), definitions=(OLD,))
    written = old.to_wire()
    with pytest.raises(MigrationFailed, match="the program is unchanged"):
        registry.snapshot.migrated(old)
    assert old.to_wire() == written


def test_a_migration_to_what_is_not_registered_fails() -> None:
    registry = DialectRegistry()
    registry.register(dialect(NEW), migrations=[Migration(at("1.0.0"), at("3.0.0", "acme.g"), same)])
    old = replace(program(store(Call("acme.f", (lit(7),)))), definitions=(OLD,))
    with pytest.raises(MigrationFailed, match=r"leads to `acme\.g` 3\.0\.0, registered is `acme\.g` 2\.0\.0"):
        registry.snapshot.migrated(old)


def test_deprecated_definitions_are_warned_of() -> None:
    old = replace(program(store(Call("acme.f", (lit(7),)))), definitions=(OLD, USER))
    (found,) = deprecations_in(
        old, [Deprecation("acme.f", Version(1), "use acme.g."), Deprecation("x.y", Version(1), "")]
    )
    assert (found.code, found.fix, str(found.location)) == ("W-OP-DEPRECATED", "use acme.g.", "op `acme.f`")
    assert deprecations_in(old, [Deprecation("acme.f", Version(1, 0, 1), "use acme.g.")]) == ()
