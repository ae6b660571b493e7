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
    held = read_evidence(bundle)
    if held.evidence.run is None and held.evidence.work is None:
        if backend is not None:
            raise InvalidConfig(f"{bundle} holds no run", fix="leave --backend out: its claims are judged again.")
        return _measured(held.evidence, as_json=as_json)
    named = held.recorded.got.by if backend is None else backend
    with open_session(named) as session, report.progress(f"running {bundle.name} on {session.backend}"):
        found = replay_on(session, held)
    if as_json:
        report.put_json(_document(held, found))
    else:
        _print(held, found)
    return Exit.OK if found.ok else Exit.WRONG


def _print(held: EvidenceBundle, found: EvidenceReplay) -> None:
    evidence, run = held.evidence, held.recorded
    made = f"{one_line(evidence.made_at)} by {one_line(evidence.source.fingerprint)}"
    job = ", a persistent job," if held.way == PERSISTENT else ""
    put(f"`{one_line(held.title or 'unnamed')}`{job} of {made}")
    for difference in found.differences:
        put(f"DIFFERS {one_line(str(difference))}")
    if found.end is not None:
        put(f"DIFFERS {one_line(str(found.end))}")
    put(f"{one_line(found.backend)}: {_verdict(held, found)}")
    if run.expected is not None:
        same = "comes to what was recorded" if found.as_recorded else "comes to something else than was recorded"
        put(f"{one_line(found.backend)} {same} of {one_line(run.got.by)}")


def _verdict(held: EvidenceBundle, found: EvidenceReplay) -> str:
    due, work = held.recorded.due, held.evidence.work
    answer = f"the answer of {one_line(due.by)}"
    if found.end is not None:
        return f"the end differs from {answer}"
    if due.error is not None:
        return f"{answer}, {one_line(str(held.outcome(due)))}"
    nbytes = sum(slot.content.nbytes for slot in due.slots)
    verdict = "the bytes of" if found.ok else f"{len(found.differences)} of {len(due.slots)} outputs differ from"
    counted = "" if work is None else "".join(f", {name}={count}" for name, count in work.counters.items())
    return f"{verdict} {answer} ({nbytes} bytes{counted})"


def _document(held: EvidenceBundle, found: EvidenceReplay) -> dict[str, Any]:
    return {
        "program": held.title,
        "way": held.way,
        "digest": held.recorded.digest,
        "made_at": held.evidence.made_at,
        "source": held.evidence.source.fingerprint,
        "backend": found.backend,
        "recorded": found.recorded,
        "expected_by": found.expected_by,
        "ok": found.ok,
        "as_recorded": found.as_recorded,
        "differences": [difference._asdict() for difference in found.differences],
        "end": None if found.end is None else found.end._asdict(),
        "counters": {} if held.evidence.work is None else dict(held.work.counters),
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
