"""``vyre conform``: checks a backend against the reference, or verifies the certificate of such a check."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from vyre.adapters.files import write_files
from vyre.adapters.terminal import put
from vyre.app.cli import report
from vyre.app.cli.exit_codes import Exit
from vyre.app.cli.options import AsJson
from vyre.domain.errors import InvalidConfig
from vyre.domain.printable import one_line
from vyre.testing.conform.campaign import Begun
from vyre.testing.conform.cases import ConformCase
from vyre.testing.conform.certificate import Certificate
from vyre.testing.conform.checking import check, opened
from vyre.testing.conform.judging import Judged
from vyre.testing.conform.verification import Verification
from vyre.testing.conform.verification import verify as verify_certificate

BUDGET_S = 120.0


def conform(
    backend: Annotated[str | None, typer.Option("--backend", "-b", help="The id of the backend to check.")] = None,
    budget: Annotated[float, typer.Option("--budget", help="Seconds that the check may take.", min=1.0)] = BUDGET_S,
    seed: Annotated[int, typer.Option("--seed", help="The seed of the random operands and programs.", min=0)] = 0,
    schedule: Annotated[
        str | None,
        typer.Option("--schedule", help="Order of lanes on an emulated device: lockstep, reverse, shuffled."),
    ] = None,
    programs: Annotated[
        int | None,
        typer.Option("--programs", help="Random programs at most; default: as many as the budget allows.", min=0),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The file to write the certificate to.")] = None,
    failures: Annotated[
        Path, typer.Option("--failures", help="The folder for failing programs, made small; needs --out.")
    ] = Path("conform-failures"),
    verify: Annotated[
        Path | None, typer.Option("--verify", help="A certificate to compute again, instead of a check.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Check that a backend gives the reference's bytes, and write a certificate that others can verify."""
    if verify is not None:
        if backend is not None or out is not None:
            raise InvalidConfig("--verify takes neither --backend nor --out", fix="name the certificate alone.")
        return _verified(verify, as_json=as_json)
    if backend is None:
        raise InvalidConfig("no backend is named", fix="pass --backend NAME (`vyre backends` lists them).")
    with (
        opened(backend, schedule, seed if schedule else None) as target,
        report.progress(_TITLE) as status,
        _running(out) as begun,
    ):
        done = 0

        def told(case: ConformCase, judged: Judged) -> None:
            nonlocal done
            done += 1
            status(f"{_TITLE}: {done} cases, at {case.name}")

        certificate = check(target, seed=seed, budget_s=budget, random_programs=programs, told=told, begun=begun)
    if out is not None:
        certificate.write(out, failures)
    _print(certificate, as_json=as_json)
    return Exit.WRONG if certificate.failures else Exit.OK


_TITLE = "checking"


@contextmanager
def _running(out: Path | None) -> Iterator[Begun]:
    """Yields what writes the case that begins to a file beside ``out``, which is left there if the process dies."""
    if out is None:
        yield lambda case, judged: None
        return
    path = out.with_name(f"{out.name}.running")

    def begun(case: ConformCase, judged: Judged | None) -> None:
        doing = "" if judged is None else f"\n{one_line(judged.text)}\nA smaller program that fails is looked for.\n"
        path.write_text(f"{case.name}\n{doing}\n{case.case.program.to_text()}", "utf-8")

    write_files({path: b""})  # that it cannot be written is told now, not when the time is spent
    try:
        yield begun
    finally:
        path.unlink(missing_ok=True)


def _print(certificate: Certificate, *, as_json: bool) -> None:
    if as_json:
        put(certificate.to_json())
        return
    for failure in certificate.failures:
        put(f"FAIL {one_line(failure.group)}/{one_line(failure.key)}: {failure.judgement}: {one_line(failure.text)}")
    refused = sorted({each.text for each in certificate.cases if each.judgement == "refused"})
    for what in refused:
        put(f"REFUSED {one_line(what)}")
    for group, number in certificate.unfinished.items():
        put(f"NOT RUN {number} cases of {group}: the budget was spent. Fix: raise --budget.")
    counted = certificate.witnesses
    put(
        f"`{certificate.subject.backend}`: {len(certificate.cases)} cases in {certificate.seconds:.0f} s, of them"
        f" {len(counted)} operations with {sum(counted.values())} operands; {len(certificate.failures)} failed,"
        f" {sum(each.judgement == 'refused' for each in certificate.cases)} refused"
    )


def _verified(path: Path, *, as_json: bool) -> int:
    certificate = Certificate.read(path)
    with report.progress("verifying") as status:
        done = 0

        def told(record: object) -> None:
            nonlocal done
            done += 1
            status(f"verifying: {done} of {len(certificate.cases)} cases")

        verified = verify_certificate(certificate, told)
    if as_json:
        report.put_json(
            {
                "computed": verified.computed,
                "reran": verified.reran,
                "absent": verified.absent,
                "objections": verified.objections,
                "failures": len(certificate.failures),
            }
        )
    else:
        _print_verified(certificate, verified)
    return Exit.OK if verified.ok else Exit.WRONG


def _print_verified(certificate: Certificate, verified: Verification) -> None:
    for objection in verified.objections:
        put(f"WRONG {one_line(objection)}")
    again = f"`{certificate.subject.backend}` ran {verified.reran} of them again"
    if verified.absent:
        again = f"it was not run again: {one_line(verified.absent)}"
    put(
        f"{len(certificate.cases)} cases, {verified.computed} computed again on the reference; {again};"
        f" the certificate lists {len(certificate.failures)} failures; {len(verified.objections)} objections"
    )
