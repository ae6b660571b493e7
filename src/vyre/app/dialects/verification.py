"""The work of ``vyre dialects verify``: checks and proofs of laws, and checks of lowerings on their backend."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from blake3 import blake3

from vyre.app.verdicts import trust_lowering
from vyre.domain.diagnostics import Diagnostic, OpLocation, Severity
from vyre.domain.dialects.expansion import expanded
from vyre.domain.dialects.laws.checker import Verdict, check_all
from vyre.domain.dialects.laws.law import Law
from vyre.domain.dialects.lowering import Computed, LoweringKey, LoweringVerdict, check_lowering
from vyre.domain.errors import BackendError
from vyre.domain.ir.buffers import Access, Buffer
from vyre.domain.ir.expr import Binary, BufferLength, Call, Expr, IdKind, LaunchId, Literal, Load, Var
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import If, Let, Store
from vyre.domain.ir.types import ScalarType
from vyre.domain.program_report import InvalidProgram
from vyre.ports.proving import Answer, Proof, Prover

if TYPE_CHECKING:
    from vyre.app.lease import BackendLease
    from vyre.domain.dialects.laws.stated import StatedLaw
    from vyre.domain.dialects.operations import Operation
    from vyre.domain.ir.definitions import Definition
    from vyre.ports.backend import Backend
    from vyre.ports.verdict_store import VerdictStore

WORKGROUP: Final = (64, 1, 1)
_OUTPUT: Final = "result of the operation"
_LANE: Final = LaunchId(IdKind.GLOBAL, 0)


class LawReport(NamedTuple):
    """The result of verifying a law at one type; ``proof`` is None if no prover was asked."""

    verdict: Verdict
    proof: Proof | None

    @property
    def is_refused(self) -> bool:
        """Whether the checker or the prover refuses the law."""
        return not self.verdict.is_accepted or (self.proof is not None and self.proof.answer is Answer.REFUTED)

    def __str__(self) -> str:
        if self.proof is None:
            return str(self.verdict)
        reason = f" ({self.proof.reason})" if self.proof.reason else ""
        return f"{self.verdict}; {self.proof.answer.value}{reason}"


def verify_laws(laws: Iterable[Law], prover: Prover | None = None) -> Iterator[LawReport]:
    """Yields a report for every law and type, after checking it, and after proving it if there is a prover.

    Raises ``MalformedText`` for a law whose texts do not parse, and ``UnsupportedFeature`` if the prover is not
    installed.
    """
    for law in laws:
        law.validate()
        for verdict in check_all(law):
            yield LawReport(verdict, None if prover is None else _proof(law, verdict, prover))


def _proof(law: Law, verdict: Verdict, prover: Prover) -> Proof:
    dtype = verdict.dtype
    return prover.prove_equal(*law.at(dtype), law.hole_types(dtype), law.condition_at(dtype))


REFUTED: Final = "E-LAW-REFUTED"
"""The code of the diagnostic about a law of a dialect that does not hold."""


class StatedReport(NamedTuple):
    """The result of verifying a law that a dialect states: a report for each of its types."""

    law: StatedLaw
    reports: tuple[LawReport, ...]

    @property
    def is_refused(self) -> bool:
        """Whether the law is refused for one of its types."""
        return any(report.is_refused for report in self.reports)

    @property
    def rewrites(self) -> bool:
        """Whether the optimizer may use the law for one of its types: all values of its model were tried there."""
        return any(report.verdict.is_trusted and not report.is_refused for report in self.reports)

    @property
    def diagnostic(self) -> Diagnostic | None:
        """Returns a diagnostic with the counterexample if the law is refused, None if it holds."""
        refused = next((report for report in self.reports if report.is_refused), None)
        if refused is None:
            return None
        return Diagnostic(
            Severity.ERROR,
            REFUTED,
            f"the law {self.law.text} does not hold: {refused}",
            "correct the law or remove it; nothing uses it.",
            None,
            OpLocation(self.law.operation),
        )

    def __str__(self) -> str:
        if self.law.unchecked:
            return f"{self.law}: not checked: {self.law.unchecked}"
        use = "the optimizer uses it" if self.rewrites else "the optimizer does not use it"
        return "\n".join((f"{self.law}: {use}", *(f"  {report}" for report in self.reports)))


# ------------------------------------------------------------------------------ lowerings


class CheckedLowerings:
    """Verdicts on lowerings: from the store, or found now and stored.  ``seed`` is that of the random operands.

    Without a store every check is made now.
    """

    def __init__(self, store: VerdictStore | None, *, seed: int = 0) -> None:
        self._store, self._seed = store, seed

    def is_usable(self, key: LoweringKey) -> bool:
        """Returns whether a lowering passed its check for this definition and this version of the backend; runs
        nothing.
        """
        known = None if self._store is None else self._store.get(key)
        return known is not None and known.is_usable

    def of_definitions(
        self,
        key: LoweringKey,
        definitions: Sequence[Definition],
        lowering: Sequence[Definition],
        reference: Callable[..., Any],
        target: Callable[..., Any],
    ) -> LoweringVerdict:
        """Returns the verdict on a lowering that is a definition: ``reference`` dispatches the definition, ``target``
        the lowering, on the backend that ``key`` names.  Raises ``InvalidProgram`` if one of them is invalid.
        """
        operation = definitions[-1]
        types = [parameter.dtype for parameter in operation.parameters]
        attributes = frozenset([k for k, parameter in enumerate(operation.parameters) if parameter.is_attribute])
        expected, actual = (
            _computed(dispatch, each, attributes) for dispatch, each in ((reference, definitions), (target, lowering))
        )
        return self.verdict(key, types, operation.result_type, expected, actual, attributes)

    def verdict(
        self,
        key: LoweringKey,
        parameters: Sequence[ScalarType],
        result: ScalarType,
        definition: Computed,
        lowered: Computed,
        attributes: frozenset[int] = frozenset(),
    ) -> LoweringVerdict:
        """Returns the stored verdict, or that of a check that is made and stored now.  Raises what computing raises."""
        known = None if self._store is None else self._store.get(key)
        if known is None:
            known = check_lowering(key, parameters, result, definition, lowered, attributes, seed=self._seed)
            if self._store is not None:
                self._store.put(known)
        return known


class LoweringReport(NamedTuple):
    """The result of verifying the lowering of an operation for a backend.

    ``problem`` says why there is no verdict, and ``is_wrong`` whether the lowering is to blame for it.
    """

    operation: str
    backend: str
    verdict: LoweringVerdict | None
    problem: str = ""
    is_wrong: bool = False

    @property
    def is_refused(self) -> bool:
        """Whether the lowering gives other results than its definition, or cannot be used with it at all."""
        return self.is_wrong or (self.verdict is not None and not self.verdict.is_usable)

    def __str__(self) -> str:
        if self.verdict is not None:
            return str(self.verdict)
        return f"`{self.operation}` on {self.backend}: {'refused' if self.is_wrong else 'not checked'}: {self.problem}"


class TargetSession(Protocol):
    """The part of a session that checks of lowerings on its backend use."""

    _lease: BackendLease

    @property
    def dispatch(self) -> Callable[..., Any]: ...


def verify_lowerings(
    operations: Iterable[Operation],
    definitions_of: Callable[[str], tuple[Definition, ...]],
    open_session: Callable[[str], AbstractContextManager[TargetSession]],
    reference: Callable[..., Any],
    checked: CheckedLowerings,
) -> Iterator[LoweringReport]:
    """Yields a report for every lowering, after computing both ways unless the verdict is stored.

    ``definitions_of`` returns the definition of an id behind those that it calls, ``open_session`` a session on a
    backend, and ``reference`` dispatches on the reference, which computes the definitions.
    """
    for operation in operations:
        for backend, lowering in operation.lowerings.items():
            definitions = definitions_of(operation.id)
            if all(parameter.is_attribute for parameter in definitions[-1].parameters):
                yield LoweringReport(operation.id, backend, None, "an operation without operands is a constant")
                continue
            if operation.lowering(backend) is None:
                problem = f"it was written for the definition {lowering.definition.hex()[:16]}, not for this one"
                yield LoweringReport(operation.id, backend, None, problem, is_wrong=True)
                continue
            try:
                with open_session(backend) as session:
                    version = version_of(session._lease.backend)
                    key = lowering_key(definitions, lowering.definitions, backend, version)
                    verdict = checked.of_definitions(
                        key, definitions, lowering.definitions, reference, session.dispatch
                    )
            except InvalidProgram as error:
                yield LoweringReport(operation.id, backend, None, error.message, is_wrong=True)
            except BackendError as error:
                yield LoweringReport(operation.id, backend, None, error.message)
            else:
                yield LoweringReport(operation.id, backend, verdict)


def version_of(backend: Backend) -> str:
    """Returns the version to which verdicts on lowerings are bound: the backend's, and all that compiles for it."""
    return backend.toolchain() or backend.version


def lowering_key(
    definitions: Sequence[Definition], lowering: Sequence[Definition], backend: str, version: str
) -> LoweringKey:
    """Returns the key of a lowering that is written as a definition itself.

    Both sequences end with the operation, behind the definitions that it calls, which are part of its digest here.
    """
    return LoweringKey(definitions[-1].id, _digest(definitions), _digest(lowering), backend, version)


def _digest(definitions: Sequence[Definition]) -> str:
    *called, last = definitions
    called.sort(key=lambda definition: definition.id)
    return blake3(b"".join(definition.digest for definition in (*called, last))).hexdigest()


def _computed(dispatch: Callable[..., Any], definitions: Sequence[Definition], attributes: frozenset[int]) -> Computed:
    """Returns the results of the last of these definitions by ``dispatch``; a program is for one choice of attributes,
    and expanded, so that no other lowering takes part.
    """
    by_attributes: dict[tuple[int, ...], Computed] = {}

    def results(columns: Sequence[Any]) -> Any:
        chosen = tuple([int(columns[place][0]) for place in sorted(attributes)])
        if chosen not in by_attributes:
            by_attributes[chosen] = computed_by(dispatch, trust_lowering(expanded(call_program(definitions, chosen))))
        return by_attributes[chosen]([column for place, column in enumerate(columns) if place not in attributes])

    return results


def call_program(definitions: Sequence[Definition], attributes: Sequence[int] = ()) -> Program:
    """Returns the ``operation_program`` that calls the last of these definitions, behind those that it calls, with
    these bits of its attributes.
    """
    operation, bits = definitions[-1], iter(attributes)
    parameters = {each.name: each.dtype for each in operation.parameters if not each.is_attribute}
    passed = [Literal(p.dtype, next(bits)) if p.is_attribute else Var(p.name) for p in operation.parameters]
    value = Call(operation.id, tuple(passed))
    program = operation_program(parameters, operation.result_type, value)
    return replace(program, definitions=tuple(definitions))


def operation_program(parameters: Mapping[str, ScalarType], result: ScalarType, value: Expr) -> Program:
    """Returns a program that computes an expression of parameters, which are locals in it, for each element of as many
    input buffers, in this order.  Definitions that the expression calls are added by the caller.
    """
    buffers = [
        Buffer(f"values of {name}", place, Access.READ_ONLY, dtype, 0)
        for place, (name, dtype) in enumerate(parameters.items())
    ]
    first = buffers[0].name
    output = Buffer(_OUTPUT, len(buffers), Access.WRITE_ONLY, result, 0, True, like=first)
    lets = [Let(name, Load(f"values of {name}", _LANE)) for name in parameters]
    inside = If(Binary(BinaryOp.LT, _LANE, BufferLength(first)), (*lets, Store(_OUTPUT, _LANE, value)), ())
    return Program((*buffers, output), WORKGROUP, (inside,))


def computed_by(dispatch: Callable[..., Any], program: Program) -> Computed:
    """Returns the results of an ``operation_program`` by ``dispatch``, such as that of a session."""
    inputs = [buffer for buffer in program.buffers if buffer.name != _OUTPUT]

    def results(columns: Sequence[Any]) -> Any:
        import numpy as np

        views = {
            buffer.name: column.view(np.dtype(_scalar(buffer).numpy_name))
            for buffer, column in zip(inputs, columns, strict=True)
        }
        results_of = np.ascontiguousarray(dispatch(program, views)[_OUTPUT])
        if results_of.dtype == np.bool_:
            return results_of.astype(np.uint32)
        return results_of.view(np.uint64 if results_of.dtype.itemsize == 8 else np.uint32)

    return results


def _scalar(buffer: Buffer) -> ScalarType:
    assert isinstance(buffer.element, ScalarType)
    return buffer.element
