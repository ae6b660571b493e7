"""``vyre dialects``: lists registered dialects, and verifies the laws and lowerings that they claim."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final, NamedTuple

import typer

from vyre.adapters.terminal import complain, put
from vyre.app.cli import report
from vyre.app.cli.exit_codes import Exit
from vyre.app.cli.options import AsJson
from vyre.app.dialects.verification import (
    CheckedLowerings,
    LawReport,
    LoweringReport,
    StatedReport,
    verify_laws,
    verify_lowerings,
)
from vyre.domain.dialects.laws.catalogue import LAWS
from vyre.domain.dialects.laws.law import Law
from vyre.domain.dialects.laws.stated import StatedLaw
from vyre.domain.dialects.laws.subgroups import SUBGROUP_LAWS, LaneExample, SubgroupLaw, check_lanes
from vyre.domain.dialects.operations import Category, Operation
from vyre.domain.errors import InvalidConfig, UnknownOperation
from vyre.domain.ir.types import ScalarType
from vyre.ports.proving import Answer

dialects: Final = typer.Typer(
    name="dialects",
    help="Operations, their laws, and what is known of both.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@dialects.callback()
def _group() -> None:
    """Keeps the names of commands where there is only one."""


@dialects.command("list")
def list_operations(
    names: Annotated[list[str] | None, typer.Argument(help="Dialects or operations; default: all dialects.")] = None,
    as_json: AsJson = False,
) -> int:
    """List dialects and their operations: those of the language, of packages and of VYRE_DIALECT_PATH."""
    from vyre.app.dialects.current import dialect_registry

    snapshot = dialect_registry().snapshot
    wanted = names or list(snapshot.dialects)
    listed = [each for name in wanted for each in snapshot.operations_in(name) or _one(snapshot.operation(name), name)]
    out_of_use = {each.operation: each.note for each in snapshot.out_of_use}
    documents = [{**_operation(each), "deprecated": out_of_use.get(each.id)} for each in listed]
    problems = [each.to_json() for each in snapshot.diagnostics]
    if as_json:
        report.put_json({"operations": documents, "diagnostics": problems})
        return Exit.OK
    table = report.table("operation", "version", "signature", "laws", "meaning")
    for each in documents:
        meaning = each["summary"] if each["deprecated"] is None else f"out of use: {each['deprecated']}"
        laws = str(len(each["laws"])) if each["laws"] else "-"
        report.add_row(table, each["id"], each["version"] or "-", each["signature"], laws, meaning)
    report.put_table(table)
    for diagnostic in snapshot.diagnostics:
        complain(diagnostic.render())
    return Exit.OK


def _one(operation: Operation | None, name: str) -> tuple[Operation, ...]:
    if operation is None:
        raise UnknownOperation(operation=name, fix="name a dialect or an operation that `vyre dialects list` shows.")
    return (operation,)


def _operation(operation: Operation) -> dict[str, Any]:
    definition = operation.definition
    return {
        "id": operation.id,
        "category": operation.category.name.lower(),
        "version": None if definition is None else str(definition.version),
        "digest": None if definition is None else definition.digest.hex(),
        "signature": str(operation.signature),
        "laws": [law.name for law in operation.laws] + list(operation.law_texts),
        "cost": operation.cost,
        "lowerings": sorted(operation.lowerings),
        "summary": operation.summary,
    }


@dialects.command()
def verify(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Laws or beginnings of names such as fmul, operations, or dialects; default: all."),
    ] = None,
    prove: Annotated[bool, typer.Option("--prove", help="Ask z3 for proofs, too (pip install 'vyre[prove]').")] = False,
    every: Annotated[bool, typer.Option("--list", help="List what holds, too, not only what does not.")] = False,
    as_json: AsJson = False,
) -> int:
    """Check laws on boundary and random values and on all values of a model of few bits, and lowerings on their
    backends, whose verdicts are stored for the sessions that use them.

    All laws take some minutes.
    """
    chosen = _chosen(names or [])
    prover = _prover() if prove else None
    reports = []
    for law_report in verify_laws(chosen.laws, prover):
        reports.append(law_report)
        if not as_json and (every or law_report.is_refused):
            put(str(law_report))
    typed = [(law, dtype) for law in chosen.subgroups for dtype in sorted(law.types, key=lambda dtype: dtype.tag)]
    lanes = [LanesReport(law, dtype, check_lanes(law, dtype)) for law, dtype in typed]
    stated = [StatedReport(law, tuple(verify_laws(law.laws, prover))) for law in chosen.stated]
    lowerings = list(_lowerings(chosen.operations))
    if as_json:
        report.put_json(
            {
                "laws": list(map(_document, reports)),
                "subgroups": list(map(_lanes_document, lanes)),
                "stated": list(map(_stated_document, stated)),
                "lowerings": list(map(_lowering_document, lowerings)),
            }
        )
    else:
        for of_lanes in lanes:
            if every or of_lanes.is_refused:
                put(str(of_lanes))
        for each in stated:
            put(str(each))
            if each.diagnostic is not None:
                complain(each.diagnostic.render())
        for lowering in lowerings:
            put(str(lowering))
        if lanes:
            refused_lanes = sum(each.is_refused for each in lanes)
            text = f"{len(lanes) - refused_lanes} hold in every lane, {refused_lanes} refused"
            put(f"{len(chosen.subgroups)} laws of subgroup operations at {len(lanes)} types: {text}")
        if reports or not (lanes or stated or lowerings):
            put(_summary(len(chosen.laws), reports))
    refused = (each.is_refused for group in (reports, lanes, stated, lowerings) for each in group)
    return Exit.WRONG if any(refused) else Exit.OK


class LanesReport(NamedTuple):
    """The result of checking a law of subgroup operations at one type; ``example`` is None if it holds."""

    law: SubgroupLaw
    dtype: ScalarType
    example: LaneExample | None

    @property
    def is_refused(self) -> bool:
        """Whether lanes were found in which the sides differ."""
        return self.example is not None

    def __str__(self) -> str:
        about = f"{self.law.name} at {self.dtype.text}"
        return f"{about}: holds in every lane" if self.example is None else f"{about}: refused: {self.example}"


def _lanes_document(lanes: LanesReport) -> dict[str, Any]:
    example = None if lanes.example is None else str(lanes.example)
    return {"law": lanes.law.name, "type": lanes.dtype.text, "refused": lanes.is_refused, "counterexample": example}


class _Chosen(NamedTuple):
    """Laws of the language, laws that dialects state, and operations whose lowerings are checked."""

    laws: list[Law]
    subgroups: list[SubgroupLaw]
    stated: list[StatedLaw]
    operations: list[Operation]


def _chosen(names: list[str]) -> _Chosen:
    from vyre.app.dialects.current import dialect_registry

    snapshot = dialect_registry().snapshot
    chosen = _Chosen([], [], [], [])
    for law in LAWS:
        if not names or any(law.name == name or law.name.startswith(f"{name}.") for name in names):
            chosen.laws.append(law)
    for of_lanes in SUBGROUP_LAWS:
        if not names or any(of_lanes.name == name or of_lanes.name.startswith(f"{name}.") for name in names):
            chosen.subgroups.append(of_lanes)
    for each in snapshot.operations.values():
        operation = each.operation
        if operation.category is not Category.INTRINSIC and (
            not names or any(operation.id == name or operation.id.startswith(f"{name}.") for name in names)
        ):
            chosen.operations.append(operation)
            chosen.stated.extend(snapshot.laws_of(operation.id))
    chosen_names = [law.name for law in (*chosen.laws, *chosen.subgroups)] + [each.id for each in chosen.operations]
    for name in names:
        if not any(each == name or each.startswith(f"{name}.") for each in chosen_names):
            raise InvalidConfig(
                f"there is no law, operation or dialect `{name}` to verify",
                fix="see docs/laws.md for laws of the language, and `vyre dialects list` for operations.",
            )
    return chosen


def _prover() -> Any:
    from vyre.adapters.proving.prover import Z3Prover  # imported on use: few runs prove

    return Z3Prover()


def _lowerings(operations: list[Operation]) -> Iterator[LoweringReport]:
    if not any(operation.lowerings for operation in operations):
        return
    from vyre.app.dialects.current import dialect_registry
    from vyre.app.opening import open as open_session
    from vyre.app.services import WIRING, wired

    wiring = WIRING.get()
    store = wiring.verdicts()
    if store is None:
        complain("note: the cache is turned off, so no verdict is stored, and sessions use no lowering")
    with wired(wiring._replace(options={})), open_session("reference") as reference:
        definitions_of = dialect_registry().snapshot.definitions_of
        yield from verify_lowerings(
            operations, definitions_of, open_session, reference.dispatch, CheckedLowerings(store)
        )


def _summary(laws: int, reports: list[LawReport]) -> str:
    refused = sum(each.is_refused for each in reports)
    answers = [each.proof.answer for each in reports if each.proof is not None]
    proved = f", {answers.count(Answer.PROVED)} proved" if answers else ""
    return (
        f"{laws} laws of the language at {len(reports)} types: {len(reports) - refused} hold{proved}, {refused} refused"
    )


def _stated_document(stated: StatedReport) -> dict[str, Any]:
    return {
        "law": stated.law.name,
        "operation": stated.law.operation,
        "text": stated.law.text,
        "refused": stated.is_refused,
        "rewrites": stated.rewrites,
        "unchecked": stated.law.unchecked or None,
        "types": [_document(each) for each in stated.reports],
        "diagnostic": None if stated.diagnostic is None else stated.diagnostic.to_json(),
    }


def _lowering_document(lowering: LoweringReport) -> dict[str, Any]:
    verdict = lowering.verdict
    return {
        "operation": lowering.operation,
        "backend": lowering.backend,
        "refused": lowering.is_refused,
        "problem": lowering.problem or None,
        "cases": None if verdict is None else verdict.cases,
        "exhaustive": None if verdict is None else verdict.is_exhaustive,
        "version": None if verdict is None else verdict.key.version,
        "verdict": str(lowering),
    }


def _document(checked: LawReport) -> dict[str, Any]:
    verdict, proof = checked.verdict, checked.proof
    counterexample = verdict.counterexample
    return {
        "law": verdict.law.name,
        "type": verdict.dtype.text,
        "before": verdict.law.before,
        "after": verdict.law.after,
        "where": verdict.law.where,
        "refused": checked.is_refused,
        "counterexample": None if counterexample is None else str(counterexample),
        "trials": [trial._asdict() for trial in verdict.trials],
        "pure": sorted(verdict.use.pure),
        "proof": None if proof is None else {"answer": proof.answer.value, "reason": proof.reason},
    }
