"""The use of lowerings: the definitions that a backend's own replacements stand in for, and why the others stay.

Only a lowering that passed its check on this version of the backend is used, for a program that carries the very
definition that it was checked against.  It is chosen before calls are expanded, so that the expanded program, whose
digest is in the keys of executable code, holds it; the digest of the program that was given never does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from vyre.app.dialects.lowered import LoweredProgram, LoweringChoice
from vyre.app.dialects.verification import lowering_key, version_of
from vyre.domain.dialects.expansion import without_calls_inside
from vyre.domain.ir.definitions_in_use import called_operations
from vyre.domain.validation.validator import check_rules, without_calls

if TYPE_CHECKING:
    from vyre.domain.dialects.lowering import LoweringKey
    from vyre.domain.dialects.operations import Lowering, Operation
    from vyre.domain.dispatch import DispatchConfig
    from vyre.domain.ir.definitions import Definition
    from vyre.domain.ir.program import Program
    from vyre.ports.backend import Backend, BackendRegistration
    from vyre.ports.verdict_store import VerdictStore

AS_WRITTEN: Final = "the program runs as it is written: the optimizer is off, steps are counted or races are checked"


class Lowerings:
    """Chooses lowerings for programs that one backend compiles.

    ``version`` returns the version of the backend and of all that compiles for it, or with ``is_partial`` the part of
    it that checks on all devices have in common; None if nothing is known of it here.  ``verdicts`` returns the store
    of checks or None, and ``operations`` what is registered.
    """

    def __init__(
        self,
        backend: str,
        version: Callable[[], str] | None,
        verdicts: Callable[[], VerdictStore | None],
        operations: Callable[[str], Operation | None],
        *,
        is_partial: bool = False,
    ) -> None:
        self._backend, self._version, self._verdicts = backend, version, verdicts
        self._operations, self._is_partial = operations, is_partial

    def applied(self, program: Program, *, as_written: bool = False) -> LoweredProgram:
        """Returns the program that stands for a valid one that calls operations; the very one if it has no definitions.

        ``as_written``: no lowering may be used.  Raises ``InvalidProgram`` for an invalid program with definitions.
        """
        plain = without_calls(program)
        if plain is program:
            return LoweredProgram(program, ())
        known: dict[str, Definition] = {}
        for definition in program.definitions:
            known.setdefault(definition.id, definition)
        used: dict[str, Definition] = {}
        choices = []
        for definition in known.values():
            operation = self._operations(definition.id)
            lowering = None if operation is None else operation.lowerings.get(self._backend)
            if lowering is None:
                continue
            refusal, told = (AS_WRITTEN, "") if as_written else self._judged(closure(definition, known), lowering)
            choice = self._choice(definition.id, refusal, told)
            if choice.is_used:
                used[definition.id] = without_calls_inside(lowering.definitions)
            choices.append(choice)
        if not used:
            return LoweredProgram(plain, tuple(choices))
        lowered = replace(program, definitions=tuple([used.get(each.id, each) for each in known.values()]))
        report = check_rules(lowered)
        if not report.ok:
            why = f"the program is refused with its lowerings: {report.errors[0].message}"
            return LoweredProgram(
                plain, tuple([each._replace(is_used=False, why=why) if each.is_used else each for each in choices])
            )
        return LoweredProgram(without_calls(lowered), tuple(choices))

    def _choice(self, operation: str, refusal: str, told: str) -> LoweringChoice:
        return LoweringChoice(operation, not refusal, refusal or told)

    def _judged(self, definitions: Sequence[Definition], lowering: Lowering) -> tuple[str, str]:
        """Returns why a lowering may not be used, or an empty text and what its check tried."""
        operation = definitions[-1]
        if lowering.definition != operation.digest:
            return f"the lowering was written for the definition {lowering.definition.hex()[:16]}, not this one", ""
        store = self._verdicts()
        if store is None:
            return "checks of lowerings are not stored: the cache is turned off", ""
        if self._version is None:
            return f"it is not known here what compiles for {self._backend}: lowerings are used by a session", ""
        key = lowering_key(definitions, lowering.definitions, self._backend, self._version())
        if self._is_partial:
            return _judged_elsewhere(key, store)
        verdict = store.get(key)
        if verdict is None:
            return _unchecked(key, store), ""
        return ("", str(verdict)) if verdict.is_usable else (str(verdict), "")


def _judged_elsewhere(key: LoweringKey, store: VerdictStore) -> tuple[str, str]:
    """Returns why a lowering may not be used in code for any device, or an empty text and where it was checked.

    The version of ``key`` is what the checks of the same emitter have in common.  One that was refused on any device is
    used on none.
    """
    of_lowering = (key.definition, key.lowering)
    known = store.of_operation(key.operation, key.backend)
    verdicts = [
        each
        for each in known
        if (each.key.definition, each.key.lowering) == of_lowering and each.key.version.startswith(f"{key.version}, ")
    ]
    refused = [each for each in verdicts if not each.is_usable]
    if refused:
        return str(refused[0]), ""
    if not verdicts:
        return _unchecked(key, store), ""
    return "", f"{verdicts[0]}; other devices and drivers that run the code have not checked it"


def lowerings_of(backend: Backend, verdicts: Callable[[], VerdictStore | None]) -> Lowerings:
    """Returns what chooses lowerings for a backend, from the registry of the process."""
    return Lowerings(str(backend.id), lambda: version_of(backend), verdicts, registered_operation)


def lowered_ahead(registration: BackendRegistration, program: Program, *, as_written: bool = False) -> LoweredProgram:
    """Returns the program that code is made of for a backend that is not opened; the very one if it calls nothing.

    ``as_written``: no lowering may be used.  Verdicts come from the cache directory.  Raises ``InvalidProgram`` as
    ``Lowerings.applied`` does.
    """
    if not program.definitions:
        return LoweredProgram(program, ())
    from vyre.app.services import WIRING

    chooser = Lowerings(
        str(registration.id),
        registration.toolchain or registration.emitter,
        WIRING.get().verdicts,
        registered_operation,
        is_partial=registration.toolchain is None,
    )
    return chooser.applied(program, as_written=as_written)


def registered_operation(name: str) -> Operation | None:
    """Returns the operation of an id in the registry of the process, None if there is none."""
    from vyre.app.dialects.current import dialect_registry  # few programs call operations

    return dialect_registry().snapshot.operation(name)


def must_run_as_written(config: DispatchConfig, *, optimize: bool) -> bool:
    """Returns whether a config counts steps, checks races or leaves the optimizer out, as ``optimize`` may, too."""
    return not (optimize and config.optimize) or config.step_budget is not None or config.race_check


def closure(definition: Definition, known: Mapping[str, Definition]) -> tuple[Definition, ...]:
    """Returns a definition behind all those that it calls, each once, in the order of ``known``."""
    wanted, pending = {definition.id}, [definition]
    while pending:
        new = {name for name in called_operations(pending.pop()) if name in known} - wanted
        wanted |= new
        pending += [known[name] for name in new]
    return (*_without(known.values(), definition.id, wanted), definition)


def _without(known: Iterable[Definition], last: str, wanted: set[str]) -> list[Definition]:
    return [each for each in known if each.id in wanted and each.id != last]


def _unchecked(key: LoweringKey, store: VerdictStore) -> str:
    """Returns why there is no verdict on a lowering."""
    fix = f"run `vyre dialects verify {key.operation}`"
    for other in store.of_operation(key.operation, key.backend):
        if (other.key.definition, other.key.lowering) == (key.definition, key.lowering):
            return f"it was checked on {key.backend} ({other.key.version}), which is now {key.version}: {fix}"
    return f"it has not been checked on {key.backend} ({key.version}): {fix}"
