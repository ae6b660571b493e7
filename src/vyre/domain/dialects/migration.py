"""Migrations: programs that carry an older definition of an operation are moved to a newer one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeAlias

from vyre.domain.diagnostics import Diagnostic, OpLocation, Severity
from vyre.domain.errors import InvalidDialect, MigrationFailed
from vyre.domain.frozen import frozen
from vyre.domain.ir.definitions import Definition, Version
from vyre.domain.ir.expr import EXPR_TYPES, Call, Expr
from vyre.domain.ir.program import Program
from vyre.domain.ir.rebuilding import rebuilt
from vyre.domain.ir.walk import unique_expressions
from vyre.domain.printable import shown
from vyre.domain.source_location import SourceLocation

DEPRECATED: Final = "W-OP-DEPRECATED"
Rewrite: TypeAlias = Callable[[tuple[Expr, ...]], Sequence[Expr]]
"""From the arguments of a call of the old operation to those of the new one, each used once and in its order."""


class OperationVersion(NamedTuple):
    """An operation in one of its versions."""

    operation: str
    version: Version

    def __str__(self) -> str:
        return f"`{self.operation}` {self.version}"


@frozen
class Migration:
    """One step from a version of an operation to another, which may have another id."""

    source: OperationVersion
    target: OperationVersion
    rewrite: Rewrite


@frozen
class Deprecation:
    """An operation that is out of use since a version; ``note`` says what to use instead."""

    operation: str
    since: Version
    note: str


class Migrated(NamedTuple):
    """A call after all steps that apply to it."""

    target: OperationVersion
    arguments: tuple[Expr, ...]


class MovedCalls(NamedTuple):
    """The calls of an operation that became calls of another version: how many, and where those with a place stand."""

    source: OperationVersion
    target: OperationVersion
    calls: int
    places: tuple[SourceLocation, ...]

    def __str__(self) -> str:
        places = "".join(f", {place}" for place in self.places[:3]) + (", ..." if len(self.places) > 3 else "")
        calls = f"{self.calls} call{'' if self.calls == 1 else 's'}"
        return f"{self.source} became {self.target} ({calls}{places})"


class MigratedProgram(NamedTuple):
    """A program whose definitions are those at the ends of the migrations, and what changed; nothing if it is the same
    object as before.
    """

    program: Program
    moved: tuple[MovedCalls, ...] = ()


class Migrations:
    """Steps that form chains.  Raises ``InvalidDialect`` for two steps from one version, and for a cycle."""

    def __init__(self, steps: Iterable[Migration] = ()) -> None:
        self._steps: dict[OperationVersion, Migration] = {}
        for step in steps:
            if step.source in self._steps:
                raise InvalidDialect(f"two migrations lead from {step.source}", fix="register one of them.")
            self._steps[step.source] = step
        for source in self._steps:
            self._check_ends(source)

    def _check_ends(self, source: OperationVersion) -> None:
        seen, end = {source}, self._steps[source].target
        while end in self._steps:
            if end in seen:
                raise InvalidDialect(f"the migrations from {source} lead back to {end}", fix="remove one of the steps.")
            seen.add(end)
            end = self._steps[end].target
        if end in seen:
            raise InvalidDialect(f"the migrations from {source} lead back to {end}", fix="remove one of the steps.")

    @property
    def steps(self) -> tuple[Migration, ...]:
        """Returns all steps, in the order in which they were given."""
        return tuple(self._steps.values())

    def target_of(self, source: OperationVersion) -> OperationVersion:
        """Returns where the chain from a version ends; that version itself if no step leads from it."""
        while source in self._steps:
            source = self._steps[source].target
        return source

    def apply(self, source: OperationVersion, arguments: tuple[Expr, ...]) -> Migrated:
        """Returns a call after all steps from its version, unchanged if there are none.

        Raises ``MigrationFailed`` for the first rewrite that raises, or gives something else than expressions.
        """
        while source in self._steps:
            step = self._steps[source]
            arguments, source = _rewritten(step, arguments), step.target
        return Migrated(source, arguments)


def _rewritten(step: Migration, arguments: tuple[Expr, ...]) -> tuple[Expr, ...]:
    try:
        rewritten: Any = tuple(step.rewrite(arguments))
    except Exception as error:  # a rewrite is the code of others
        raise MigrationFailed(
            f"the migration from {step.source} to {step.target} failed: {shown(error)}",
            fix="repair the rewrite, or change the call by hand; the program is unchanged.",
        ) from error
    if not all(isinstance(each, EXPR_TYPES) for each in rewritten):
        raise MigrationFailed(
            f"the migration from {step.source} to {step.target} gave {shown(rewritten)}",
            fix="return the arguments of the new call, nodes of vyre.ir; the program is unchanged.",
        )
    return rewritten  # type: ignore[no-any-return]


def migrated(
    program: Program, migrations: Migrations, definitions_of: Callable[[str], tuple[Definition, ...]]
) -> MigratedProgram:
    """Returns the program with every definition that has a newer version replaced, and its calls rewritten.

    It is the same object if no migration applies.  ``definitions_of`` returns the definition of an id, behind those
    that it calls, and may raise ``UnknownOperation``.  Raises ``MigrationFailed``; the given program never changes.
    """
    moved = {
        each.id: each for each in program.definitions if migrations.target_of(_version_of(each)) != _version_of(each)
    }
    if not moved:
        return MigratedProgram(program)
    definitions_by_id: dict[str, Definition] = {}
    for definition in program.definitions:
        if definition.id not in moved:
            definitions_by_id.setdefault(definition.id, definition)
            continue
        target = migrations.target_of(_version_of(definition))
        for newer in definitions_of(target.operation):
            definitions_by_id[newer.id] = newer
        version = _version_of(definitions_by_id[target.operation])
        if version != target:
            raise MigrationFailed(
                f"the migration of {_version_of(definition)} leads to {target}, registered is {version}",
                fix=f"register {target}, or a migration on to {version}.",
            )

    calls: dict[str, list[SourceLocation | None]] = {name: [] for name in moved}

    def changed(node: Any) -> Any:
        if type(node) is not Call or node.op not in moved:
            return node
        calls[node.op].append(node.loc)
        target, arguments = migrations.apply(_version_of(moved[node.op]), node.args)
        return replace(node, op=target.operation, args=arguments)

    kept = {id(each) for each in program.definitions}
    definitions = tuple([rebuilt(each, changed) if id(each) in kept else each for each in definitions_by_id.values()])
    made_program = replace(program, body=rebuilt(program.body, changed), definitions=definitions)
    told = []
    for name, definition in moved.items():
        places = tuple(dict.fromkeys([loc for loc in calls[name] if loc is not None]))
        source = _version_of(definition)
        told.append(MovedCalls(source, migrations.target_of(source), len(calls[name]), places))
    return MigratedProgram(made_program, tuple(told))


def _version_of(definition: Definition) -> OperationVersion:
    return OperationVersion(definition.id, definition.version)


def deprecations_in(program: Program, known: Iterable[Deprecation]) -> tuple[Diagnostic, ...]:
    """Returns a warning for each line that calls an operation which is out of use in the version that the program
    defines; one for all calls without a place.
    """
    by_id = {each.operation: each for each in known}
    out_of_use = {each.id: each for each in program.definitions if is_deprecated(each, by_id.get(each.id))}
    if not out_of_use:
        return ()
    warnings: dict[tuple[str, SourceLocation | None], Diagnostic] = {}
    for node in unique_expressions(program):
        if type(node) is Call and node.op in out_of_use:
            place = node.loc or out_of_use[node.op].loc
            key = node.op, None if place is None else replace(place, column=None)
            if key not in warnings:
                message, fix = deprecation_text(by_id[node.op])
                where = OpLocation(node.op)
                warnings[key] = Diagnostic(Severity.WARNING, DEPRECATED, message, fix, place, where)
    return tuple(warnings.values())


def is_deprecated(definition: Definition, known: Deprecation | None) -> bool:
    """Returns whether a definition is out of use in its version."""
    return known is not None and definition.version >= known.since


def deprecation_text(known: Deprecation) -> tuple[str, str]:
    """Returns what a warning says, and what to do."""
    return f"`{known.operation}` is out of use since version {known.since}", known.note
