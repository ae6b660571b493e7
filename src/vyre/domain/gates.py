"""Enforcement gates: functions that see a valid program and allow or refuse it, asked one after the other.

The first refusal ends the chain.  A gate that fails, or answers with something else, refuses: what nobody has allowed
does not run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from vyre.domain.arguments import whole
from vyre.domain.errors import InvalidConfig, RefusedByGate
from vyre.domain.float_mode import in_default_mode
from vyre.domain.frozen import frozen
from vyre.domain.ir.buffers import Buffer, MemoryKind
from vyre.domain.ir.expr import Atomic, Call
from vyre.domain.ir.program import Program, ProgramLike, program_of
from vyre.domain.ir.stmt import AsyncLoad, AsyncStore, Store, Trap
from vyre.domain.ir.walk import program_statements, unique_expressions
from vyre.domain.printable import shown
from vyre.domain.record import U64_MAX
from vyre.domain.validation.known import order_sensitive
from vyre.domain.validation.validator import check_rules

FAILED: Final = "E-GATE-FAILED"
"""The code of the refusal of a gate that raises an error, or answers with neither ``Allow`` nor ``Refuse``."""


class MutationClass(IntEnum):
    """Classes of the changes by a program that others see after it; a later class is a wider one.

    Private and workgroup memory ends with the launch, so that nobody sees what happens there.
    """

    NOTHING = 0
    OUTPUTS = 1
    """Buffers that are allocated for the run, and returned."""
    IN_PLACE = 2
    """Buffers that the caller passes."""
    SHARED = 3
    """Buffers of the kind ``persistent``, which other programs use, too."""
    ATOMICS = 4
    """Memory of any of these kinds, by atomic operations."""


class Allow(NamedTuple):
    """The answer of a gate that lets a program pass; ``notes`` are for whoever wrote it."""

    notes: tuple[str, ...] = ()


class Refuse(NamedTuple):
    """The answer of a gate that refuses a program: a stable code, the reason, and what to do."""

    code: str
    reason: str
    fix: str


Answer: TypeAlias = "Allow | Refuse"


@frozen
class GatedProgram:
    """The view of a gate: a valid program, and facts about it.

    ``changes``: what may happen to each buffer that the program writes and others see, by its name.  ``operations``:
    the ids of the operations that the program calls or defines.  ``traps``: the tags of its traps.
    """

    program: Program
    changes: Mapping[str, MutationClass]
    operations: frozenset[str]
    traps: tuple[str, ...]
    is_order_sensitive: bool

    @property
    def mutation(self) -> MutationClass:
        """Returns the widest class of the changes."""
        return max(self.changes.values(), default=MutationClass.NOTHING)


Gate: TypeAlias = "Callable[[GatedProgram], Answer]"


@frozen
class GateReport:
    """The answers of a chain of gates, with the name of each gate that was asked, in order."""

    answers: tuple[tuple[str, Answer], ...] = ()

    @property
    def refusal(self) -> tuple[str, Refuse] | None:
        """Returns the gate that refused, and its answer; None if all allow the program."""
        name, answer = self.answers[-1] if self.answers else ("", Allow())
        return (name, answer) if isinstance(answer, Refuse) else None

    @property
    def notes(self) -> tuple[tuple[str, str], ...]:
        """Returns the notes of the gates that allow the program, each with the name of its gate."""
        return tuple([(name, note) for name, answer in self.answers if isinstance(answer, Allow) for note in answer[0]])

    def require(self) -> None:
        """Raises ``RefusedByGate`` if a gate refused."""
        refused = self.refusal
        if refused is not None:
            name, (code, reason, fix) = refused
            raise RefusedByGate(gate=name, gate_code=code, reason=reason, fix=fix)


def gated(program: Program) -> GatedProgram:
    """Returns what gates see of a valid program.  Linear in its nodes."""
    buffers = {buffer.name: buffer for buffer in program.buffers}
    changes: dict[str, MutationClass] = {}
    operations = {definition.id for definition in program.definitions}
    traps = []
    for stmt in program_statements(program):
        if isinstance(stmt, Store):
            _add(changes, buffers[stmt.buffer])
        elif isinstance(stmt, AsyncLoad | AsyncStore):
            _add(changes, buffers[stmt.destination])
        elif isinstance(stmt, Trap):
            traps.append(stmt.tag)
    for expr in unique_expressions(program):
        if isinstance(expr, Atomic):
            _add(changes, buffers[expr.buffer], MutationClass.ATOMICS)
        elif isinstance(expr, Call):
            operations.add(expr.op)
    return GatedProgram(
        program, MappingProxyType(changes), frozenset(operations), tuple(traps), order_sensitive(program)
    )


def _add(changes: dict[str, MutationClass], buffer: Buffer, mutation: MutationClass | None = None) -> None:
    if not buffer.is_bound:
        return
    if mutation is None:
        is_shared = buffer.kind is MemoryKind.PERSISTENT
        usual = MutationClass.OUTPUTS if buffer.is_output else MutationClass.IN_PLACE
        mutation = MutationClass.SHARED if is_shared else usual
    changes[buffer.name] = max(mutation, changes.get(buffer.name, mutation))


def checked_gates(gates: Iterable[Gate]) -> tuple[Gate, ...]:
    """Returns gates as a tuple; raises ``InvalidConfig`` for anything but an iterable of functions."""
    value: object = gates
    if not isinstance(value, Iterable) or isinstance(value, str):
        raise InvalidConfig(f"gates={shown(gates)}", fix="pass a list of gates, such as [vyre.gates.no_traps].")
    chain = tuple(gates)
    for gate in chain:
        if not callable(gate):
            raise InvalidConfig(f"the gate {shown(gate)} cannot be called", fix="pass a function of a GatedProgram.")
    return chain


@in_default_mode
def check_gates(program: ProgramLike, gates: Iterable[Gate]) -> GateReport:
    """Returns the answers of gates about a program, up to the first refusal.

    Raises ``InvalidProgram`` for an invalid program, about which no gate is asked, and ``InvalidConfig`` for gates that
    are no functions.
    """
    chain = checked_gates(gates)
    tree: Program = program_of(program)
    check_rules(tree).raise_if_invalid()
    return asked(tree, chain)


def asked(program: Program, gates: tuple[Gate, ...]) -> GateReport:
    """Returns ``check_gates`` of a program that is known to be valid."""
    seen = gated(program)
    answers: list[tuple[str, Answer]] = []
    for gate in gates:
        name = str(getattr(gate, "__name__", type(gate).__name__))
        answers.append((name, answer := _answer(gate, seen)))
        if isinstance(answer, Refuse):
            break
    return GateReport(tuple(answers))


def _answer(gate: Gate, seen: GatedProgram) -> Answer:
    fix = "repair the gate: it answers each program with Allow or Refuse."
    try:
        answer: object = gate(seen)
    except Exception as error:  # a gate is the code of others
        return Refuse(FAILED, f"the gate raised {shown(error)}", fix)
    if isinstance(answer, Allow) and isinstance(answer.notes, tuple):
        is_whole = all(isinstance(note, str) for note in answer.notes)
    else:
        is_whole = isinstance(answer, Refuse) and all(isinstance(text, str) for text in answer)
    if is_whole and isinstance(answer, Allow | Refuse):
        return answer
    return Refuse(FAILED, f"the gate answered {shown(answer)}", fix)


# ------------------------------------------------------------------------------ ready gates
def no_traps(seen: GatedProgram) -> Answer:
    """Refuses programs that can end with a trap."""
    if not seen.traps:
        return Allow()
    return Refuse("E-GATE-TRAP", f"it may trap with {shown(seen.traps[0])}", "write the failure to an output instead.")


def no_order_dependent_results(seen: GatedProgram) -> Answer:
    """Refuses programs whose results may depend on the order in which lanes reach atomics."""
    if not seen.is_order_sensitive:
        return Allow()
    return Refuse(
        "E-GATE-ORDER",
        "its results may depend on the order in which lanes reach atomics",
        "use no value that an atomic operation returns, and atomics that commute.",
    )


def changes_at_most(most: MutationClass) -> Gate:
    """Returns a gate that refuses programs that may change more than a class says.

    Raises ``InvalidConfig`` for anything but a ``MutationClass``.
    """
    if not isinstance(most, MutationClass):
        raise InvalidConfig(f"changes_at_most({shown(most)})", fix="pass a vyre.gates.MutationClass.")

    def gate(seen: GatedProgram) -> Answer:
        for name, change in seen.changes.items():
            if change > most:
                reason = f"it may change {shown(name)}: {_words(change)}, and at most {_words(most)} is allowed"
                return Refuse("E-GATE-CHANGES", reason, f"keep it to {_words(most)}, or use a wider gate.")
        return Allow()

    return _named(gate, f"changes_at_most({most.name})")


def at_most_bytes(most: int, *, sized: bool = False) -> Gate:
    """Returns a gate that refuses programs whose buffers and workgroup memory take more than ``most`` bytes.

    What is sized when the program runs is not counted, which a note says; ``sized`` refuses it.  Raises
    ``InvalidConfig`` for another number than 0 to 2^64 - 1.
    """
    limit = whole("at_most_bytes", most, 0, U64_MAX, "give a number of bytes.")

    def gate(seen: GatedProgram) -> Answer:
        buffers = [buffer for buffer in seen.program.buffers if not buffer.is_private]
        open_ended = [buffer.name for buffer in buffers if buffer.static_nbytes is None]
        total = sum(buffer.static_nbytes or 0 for buffer in buffers)
        if total > limit:
            return Refuse("E-GATE-BYTES", f"its memory takes {total} bytes, more than {limit}", "declare less memory.")
        if sized and open_ended:
            reason = f"{shown(open_ended[0])} is sized when the program runs"
            return Refuse("E-GATE-BYTES", reason, "declare the number of its elements.")
        return Allow(tuple([f"{shown(name)} is sized when the program runs, and not counted" for name in open_ended]))

    return _named(gate, f"at_most_bytes({limit})")


def only_dialects(*names: str) -> Gate:
    """Returns a gate that refuses programs that call or define operations of other dialects; ``core`` is always
    allowed.

    It looks at ids alone: a program may define an operation of an allowed dialect itself.
    """
    for name in names:
        if not isinstance(name, str):
            raise InvalidConfig(f"only_dialects({shown(name)})", fix="pass ids of dialects, such as `acme`.")

    def gate(seen: GatedProgram) -> Answer:
        for operation in sorted(seen.operations):
            if not any(operation.startswith(f"{name}.") for name in names):
                allowed = ", ".join(names) or "core alone"
                reason = f"it has the operation {shown(operation)}, and the dialects are {allowed}"
                return Refuse("E-GATE-DIALECT", reason, "write the operation out, or allow its dialect.")
        return Allow()

    return _named(gate, f"only_dialects({', '.join(names)})")


def _words(change: MutationClass) -> str:
    return change.name.lower().replace("_", " ")


def _named(gate: Gate, name: str) -> Gate:
    gate.__name__ = name
    return gate
