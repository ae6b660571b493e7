"""``vyre replay``: runs again what an evidence bundle holds, and judges its claims again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from vyre.adapters.terminal import put
from vyre.app.cli import report
from vyre.app.cli.exit_codes import Exit
from vyre.app.cli.options import AsJson
from vyre.app.evidence.bundle import EvidenceBundle, read_evidence
from vyre.app.evidence.claims import judge_speed_claim
from vyre.app.evidence.replaying import EvidenceReplay, replay_on
from vyre.app.opening import open as open_session
from vyre.domain.errors import InvalidConfig
from vyre.domain.evidence.records import PERSISTENT, Evidence
from vyre.domain.printable import one_line


def replay(
    bundle: Annotated[Path, typer.Argument(help="An evidence bundle, as `vyre run --evidence` writes it.")],
    backend: Annotated[
        str | None, typer.Option("--backend", "-b", help="Run on this backend; default: that of the bundle.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Run again what an evidence bundle holds and compare what it comes to; exit code 1 if that differs."""
    evidence = read_evidence(bundle)
    if evidence.evidence.run is None and evidence.evidence.work is None:
        if backend is not None:
            raise InvalidConfig(f"{bundle} holds no run", fix="leave --backend out: its claims are judged again.")
        return _measured(evidence.evidence, as_json=as_json)
    named = evidence.recorded.got.by if backend is None else backend
    with open_session(named) as session, report.progress(f"running {bundle.name} on {session.backend}"):
        again = replay_on(session, evidence)
    if as_json:
        report.put_json(_document(evidence, again))
    else:
        _print(evidence, again)
    return Exit.OK if again.ok else Exit.WRONG


def _print(recorded: EvidenceBundle, again: EvidenceReplay) -> None:
    evidence, run = recorded.evidence, recorded.recorded
    origin = f"{one_line(evidence.made_at)} by {one_line(evidence.source.fingerprint)}"
    job = ", a persistent job," if recorded.way == PERSISTENT else ""
    put(f"`{one_line(recorded.title or 'unnamed')}`{job} of {origin}")
    for difference in again.differences:
        put(f"DIFFERS {one_line(str(difference))}")
    if again.end is not None:
        put(f"DIFFERS {one_line(str(again.end))}")
    put(f"{one_line(again.backend)}: {_verdict(recorded, again)}")
    if run.expected is not None:
        same = "comes to what was recorded" if again.as_recorded else "comes to something else than was recorded"
        put(f"{one_line(again.backend)} {same} of {one_line(run.got.by)}")


def _verdict(recorded: EvidenceBundle, again: EvidenceReplay) -> str:
    due, work = recorded.recorded.due, recorded.evidence.work
    answer = f"the answer of {one_line(due.by)}"
    if again.end is not None:
        return f"the end differs from {answer}"
    if due.error is not None:
        return f"{answer}, {one_line(str(recorded.outcome(due)))}"
    nbytes = sum(slot.content.nbytes for slot in due.slots)
    verdict = "the bytes of" if again.ok else f"{len(again.differences)} of {len(due.slots)} outputs differ from"
    counted = "" if work is None else "".join(f", {name}={count}" for name, count in work.counters.items())
    return f"{verdict} {answer} ({nbytes} bytes{counted})"


def _document(recorded: EvidenceBundle, again: EvidenceReplay) -> dict[str, Any]:
    return {
        "program": recorded.title,
        "way": recorded.way,
        "digest": recorded.recorded.digest,
        "made_at": recorded.evidence.made_at,
        "source": recorded.evidence.source.fingerprint,
        "backend": again.backend,
        "recorded": again.recorded,
        "expected_by": again.expected_by,
        "ok": again.ok,
        "as_recorded": again.as_recorded,
        "differences": [difference._asdict() for difference in again.differences],
        "end": None if again.end is None else again.end._asdict(),
        "counters": {} if recorded.evidence.work is None else dict(recorded.work.counters),
    }


def _measured(evidence: Evidence, *, as_json: bool) -> int:
    """Prints the claims of a bundle of measurements, which reading has found to be supported."""
    judged = [judge_speed_claim(evidence.measurements, claim) for claim in evidence.claims]
    if as_json:
        claims = [
            {
                "measurement": each.claim.measurement,
                "faster": each.claim.faster,
                "slower": each.claim.slower,
                "factor": each.claim.factor,
                "median": each.verdict.median_x,
                "lower_bound": each.verdict.lower_bound_x,
            }
            for each in judged
        ]
        report.put_json(
            {"made_at": evidence.made_at, "measurements": len(evidence.measurements), "supported_claims": claims}
        )
        return Exit.OK
    for each in judged:
        put(one_line(str(each)))
    put(f"{len(evidence.measurements)} measurements, {len(judged)} claims, all supported by their samples; nothing ran")
    return Exit.OK
