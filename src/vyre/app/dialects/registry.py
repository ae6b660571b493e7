"""The registry of the dialects of a process (``DialectRegistry``), as snapshots that are replaced whole."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from vyre.adapters.forks import process_lock
from vyre.domain.diagnostics import Diagnostic
from vyre.domain.dialects.core import CORE
from vyre.domain.dialects.laws.stated import StatedLaw, stated_law
from vyre.domain.dialects.manifests import DUPLICATE_OP, REFUSED, SHADOWED, Manifest, finding
from vyre.domain.dialects.migration import Deprecation, MigratedProgram, Migration, Migrations, is_deprecated, migrated
from vyre.domain.dialects.operations import Dialect, Operation
from vyre.domain.errors import DuplicateOperation, InvalidDialect, MalformedText, RefusedByGate, UnknownOperation
from vyre.domain.frozen import frozen
from vyre.domain.ir.definitions import Definition
from vyre.domain.ir.definitions_in_use import called_operations
from vyre.domain.ir.expr import Call, Literal
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import Let
from vyre.domain.ir.walk import unique_expressions
from vyre.ports.interrupts import sealed

if TYPE_CHECKING:
    from vyre.domain.gates import Gate


class RegisteredOperation(NamedTuple):
    """An operation, and who registered it."""

    operation: Operation
    registrant: str


_CALLED: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_NO_DIALECTS: Final[Mapping[str, Dialect]] = MappingProxyType({})
_NO_OPERATIONS: Final[Mapping[str, RegisteredOperation]] = MappingProxyType({})


@frozen
class RegistrySnapshot:
    """The content of a registry at one time.  It is immutable: whoever holds it keeps seeing the same content."""

    dialects: Mapping[str, Dialect] = field(default_factory=lambda: _NO_DIALECTS)
    operations: Mapping[str, RegisteredOperation] = field(default_factory=lambda: _NO_OPERATIONS)
    migrations: Migrations = field(default_factory=Migrations)
    deprecations: tuple[Deprecation, ...] = ()
    manifests: tuple[Manifest, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()

    def dialect(self, name: str) -> Dialect | None:
        """Returns the dialect of an id, None if there is none."""
        return self.dialects.get(name)

    def operation(self, name: str) -> Operation | None:
        """Returns the operation of an id, None if there is none."""
        registered = self.operations.get(name)
        return None if registered is None else registered.operation

    def contains(self, name: str) -> bool:
        """Returns whether there is an operation of that id."""
        return name in self.operations

    def operations_in(self, dialect: str) -> tuple[Operation, ...]:
        """Returns the operations of a dialect in order; none for an unknown one."""
        registered = self.dialects.get(dialect)
        return () if registered is None else registered.operations

    def definitions_of(self, name: str) -> tuple[Definition, ...]:
        """Returns the definition of an operation, behind those that it calls.

        Raises ``UnknownOperation``, also for an operation without a definition.
        """
        definitions: dict[str, Definition] = {}
        stack = [(name, False)]
        while stack:
            id_, is_done = stack.pop()
            if id_ in definitions:
                continue
            definition = self._definition(id_)
            if is_done:
                definitions[id_] = definition
            else:
                stack.append((id_, True))
                stack += [(called, False) for called in called_operations(definition)]
        return tuple(definitions.values())

    def _definition(self, name: str) -> Definition:
        operation = self.operation(name)
        if operation is None:
            raise UnknownOperation(operation=name)
        if operation.definition is None:
            raise UnknownOperation(
                operation=name, fix=f"`{name}` is known but has no definition: define it in the program."
            )
        return operation.definition

    def laws_of(self, name: str) -> tuple[StatedLaw, ...]:
        """Returns the laws of an operation: those that are stated as texts, then those that are given as ``Law``.

        Raises ``MalformedText`` for a text that is no law.
        """
        operation = self.operation(name)
        if operation is None:
            return ()
        stated = [_law(text, name, number, self) for number, text in enumerate(operation.law_texts, 1)]
        return (*stated, *(StatedLaw(law.name, name, str(law), (law,)) for law in operation.laws))

    def resolved(self, program: Program) -> Program:
        """Returns the program with the definitions of the operations that it calls and does not define.

        What the program defines itself stays; what is not registered stays undefined.
        """
        known = {each.id: each for each in reversed(program.definitions)}
        added: dict[str, Definition] = {}
        for node in unique_expressions(program):
            if type(node) is Call and node.op not in known and self.contains(node.op):
                added.update((each.id, each) for each in self.definitions_of(node.op) if each.id not in known)
        if not added:
            return program
        return replace(program, definitions=(*added.values(), *program.definitions))

    def migrated(self, program: Program) -> Program:
        """Returns the program with older definitions replaced by those to which migrations lead.

        Raises ``MigrationFailed`` and ``UnknownOperation``; the given program never changes.
        """
        return self.migration_of(program).program

    def migration_of(self, program: Program) -> MigratedProgram:
        """Returns ``migrated`` of the program with what changed; raises as it does."""
        return migrated(program, self.migrations, self.definitions_of)

    @property
    def out_of_use(self) -> tuple[Deprecation, ...]:
        """Returns the deprecations of manifests and of code, one for each operation; later ones of code precede."""
        of_manifests = [each for manifest in self.manifests for each in manifest.deprecations]
        return tuple({each.operation: each for each in (*of_manifests, *self.deprecations)}.values())

    def deprecation_of(self, definition: Definition) -> Deprecation | None:
        """Returns the deprecation by which a definition is out of use in its version, or None."""
        known = next((each for each in self.out_of_use if each.operation == definition.id), None)
        return known if is_deprecated(definition, known) else None


class DialectRegistry:
    """Holds one snapshot; every change makes a new one and replaces the old in one step."""

    def __init__(self, snapshot: RegistrySnapshot | None = None) -> None:
        self._snapshot = snapshot or RegistrySnapshot()
        self._gates: tuple[Gate, ...] = ()
        self._changing = process_lock()

    @property
    def snapshot(self) -> RegistrySnapshot:
        """Returns the content of now."""
        return self._snapshot

    @property
    def gates(self) -> tuple[Gate, ...]:
        """Returns the gates that programs with definitions must pass in every session."""
        return self._gates

    def require(self, *gates: Gate) -> None:
        """Adds gates.

        They see each operation that is registered with a definition, from now on, as the smallest program that calls
        it, and in every session of the process each program that carries definitions.  Raises ``InvalidConfig`` for
        what is no function, and ``RefusedByGate`` where a registered operation does not pass; nothing is added then.
        """
        from vyre.domain.gates import checked_gates  # few registries have gates

        added = checked_gates(gates)
        with self._changing, sealed:
            for name in self._snapshot.operations:
                _admit(self._snapshot, name, added)
            self._gates += added

    def install(self, snapshot: RegistrySnapshot) -> None:
        """Replaces everything."""
        self._snapshot = snapshot

    def register(
        self,
        *dialects: Dialect,
        registrant: str = "Python code",
        migrations: Iterable[Migration] = (),
        deprecations: Iterable[Deprecation] = (),
    ) -> None:
        """Adds dialects, migrations and deprecations, all or nothing; ``registrant`` names their origin in errors.

        Raises ``DuplicateOperation`` for an id that is registered already, ``UnknownOperation`` for a definition that
        calls what is not registered, ``InvalidDialect`` for definitions or migrations that form a cycle and for a law
        that is no equation, and ``RefusedByGate`` for an operation that does not pass the gates of the registry.
        """
        with self._changing, sealed:
            old = self._snapshot
            grown = _with_dialects(old, dialects, registrant)
            self._admit(grown, dialects)
            self._snapshot = RegistrySnapshot(
                grown.dialects,
                grown.operations,
                Migrations((*old.migrations.steps, *migrations)),
                (*old.deprecations, *deprecations),
                old.manifests,
                old.diagnostics,
            )

    def add_manifests(self, manifests: Iterable[Manifest], diagnostics: Iterable[Diagnostic] = ()) -> None:
        """Adds manifests; raises nothing.

        Of two manifests of one dialect the higher version stays, the earlier one if both are the same.  A manifest with
        an operation that code has registered is dropped.  Both become diagnostics.
        """
        with self._changing, sealed:
            old = self._snapshot
            notes = [*old.diagnostics, *diagnostics]
            best = _chosen((*old.manifests, *manifests), notes)
            base = _without(old, {each.dialect.id for each in old.manifests})
            kept = []
            for manifest in best:
                try:
                    grown = _with_dialects(base, (manifest.dialect,), manifest.source)
                    self._admit(grown, (manifest.dialect,))
                    base = grown
                    kept.append(manifest)
                except RefusedByGate as error:
                    notes.append(finding(REFUSED, error.message, error.fix, manifest.source))
                except DuplicateOperation as error:
                    notes.append(finding(DUPLICATE_OP, error.message, error.fix, manifest.source, error.operation))
            self._snapshot = RegistrySnapshot(
                base.dialects, base.operations, old.migrations, old.deprecations, tuple(kept), tuple(notes)
            )

    def _admit(self, snapshot: RegistrySnapshot, dialects: Iterable[Dialect]) -> None:
        for name in [each.id for dialect in dialects for each in dialect.operations] if self._gates else ():
            _admit(snapshot, name, self._gates)


def _admit(snapshot: RegistrySnapshot, name: str, gates: tuple[Gate, ...]) -> None:
    """Raises ``RefusedByGate`` if the smallest program that calls an operation does not pass."""
    from vyre.domain.gates import check_gates  # few registries have gates

    operation = snapshot.operations[name].operation
    if gates and operation.definition is not None:
        arguments = tuple([Literal.of(each.dtype, 0) for each in operation.definition.parameters])
        body = (Let("result", Call(name, arguments)),)
        program = Program((), (1, 1, 1), body, name=name, definitions=snapshot.definitions_of(name))
        check_gates(program, gates).require()


def _chosen(manifests: Iterable[Manifest], notes: list[Diagnostic]) -> list[Manifest]:
    best: dict[str, Manifest] = {}
    for manifest in manifests:
        name = manifest.dialect.id
        other = best.get(name)
        if other is None or manifest.dialect.version > other.dialect.version:
            best[name] = manifest
        if other is not None:
            winner, loser = best[name], manifest if best[name] is other else other
            message = f"`{name}` {loser.dialect.version} is not used: {winner.source} has {winner.dialect.version}"
            notes.append(finding(SHADOWED, message, "keep one manifest of the dialect.", loser.source))
    return list(best.values())


def _without(snapshot: RegistrySnapshot, names: set[str]) -> RegistrySnapshot:
    dialects = {name: each for name, each in snapshot.dialects.items() if name not in names}
    kept = {operation.id for dialect in dialects.values() for operation in dialect.operations}
    operations = {name: each for name, each in snapshot.operations.items() if name in kept}
    return RegistrySnapshot(MappingProxyType(dialects), MappingProxyType(operations))


def _with_dialects(snapshot: RegistrySnapshot, dialects: Sequence[Dialect], registrant: str) -> RegistrySnapshot:
    """Returns a snapshot of the dialects of another one and of new ones."""
    known, operations = dict(snapshot.dialects), dict(snapshot.operations)
    added: list[Definition] = []
    for dialect in dialects:
        who = f"{dialect.id} of {registrant}"
        if dialect.id in known:
            prefix = f"{dialect.id}."
            first = next((each for each in operations.values() if each.operation.id.startswith(prefix)), None)
            other = dialect.id if first is None else first.registrant
            raise DuplicateOperation(operation=dialect.id, first=other, second=who)
        known[dialect.id] = dialect
        for operation in dialect.operations:
            if operation.id in operations:
                raise DuplicateOperation(operation=operation.id, first=operations[operation.id].registrant, second=who)
            operations[operation.id] = RegisteredOperation(operation, who)
            if operation.definition is not None:
                added.append(operation.definition)
    grown = RegistrySnapshot(MappingProxyType(known), MappingProxyType(operations))
    _check_calls(grown, added)
    _check_laws(grown, dialects)
    return grown


def _law(text: str, operation: str, number: int, snapshot: RegistrySnapshot) -> StatedLaw:
    """Returns a law that an operation of a snapshot states; read once while the definitions stay."""
    called = {word for word in _CALLED.findall(text) if snapshot.contains(word)} | {operation}
    known: dict[str, Definition] = {}
    undefined: set[str] = set()
    for name in sorted(called):
        if snapshot.operations[name].operation.definition is None:
            undefined.add(name)
        else:
            known.update((each.id, each) for each in snapshot.definitions_of(name))
    return _read_law(text, operation, number, tuple(known.values()), frozenset(undefined))


@lru_cache(maxsize=4096)
def _read_law(
    text: str, operation: str, number: int, definitions: tuple[Definition, ...], undefined: frozenset[str]
) -> StatedLaw:
    return stated_law(text, operation, number, definitions, undefined)


def _check_laws(snapshot: RegistrySnapshot, dialects: Iterable[Dialect]) -> None:
    """Raises ``InvalidDialect`` for a law that is malformed."""
    for dialect in dialects:
        for operation in dialect.operations:
            try:
                snapshot.laws_of(operation.id)
                for law in operation.laws if dialect.id != CORE else ():
                    law.validate()
            except MalformedText as error:
                raise InvalidDialect(f"`{operation.id}` states no law: {error.message}", fix=error.fix) from None


def _check_calls(snapshot: RegistrySnapshot, definitions: Iterable[Definition]) -> None:
    """Raises ``UnknownOperation`` and ``InvalidDialect`` where calls lead nowhere or in a circle."""
    done: set[str] = set()
    for root in definitions:
        path: list[str] = []
        stack: list[tuple[str, bool]] = [(root.id, False)]
        while stack:
            name, is_left = stack.pop()
            if is_left:
                path.pop()
                done.add(name)
            elif name in path:
                circle = " -> ".join([*path[path.index(name) :], name])
                raise InvalidDialect(
                    f"operations call each other in a circle: {circle}", fix="remove one of the calls."
                )
            elif name not in done:
                path.append(name)
                stack.append((name, True))
                stack += [(called, False) for called in called_operations(snapshot._definition(name))]
