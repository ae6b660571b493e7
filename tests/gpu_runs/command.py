"""The command line of ``python -m tests.gpu_runs``."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from gpu_runs import presence
from gpu_runs.bench import goals
from gpu_runs.context import COMMANDS, GPU_BACKEND, Context
from gpu_runs.evidence import bundle_of, device_name, write_evidence
from gpu_runs.exit_codes import ExitCode
from gpu_runs.provenance import describe
from gpu_runs.supervisor import GroupVerdict, Record, Supervisor

_EXIT_CODES: Final = """exit codes:
  0  everything that ran passed; or there is no NVIDIA GPU here, and one line says so
  1  something failed, timed out or could not be run within the budget
  2  wrong usage
  3  a GPU or its driver is here but cannot be used
  4  no GPU here, and --require-gpu was given
"""


def main(arguments: Sequence[str] | None = None, look: Callable[[], presence.Presence] = presence.look) -> int:
    options = _parser().parse_args(arguments)
    wanted = options.only or ["*"]
    groups = [g for g in COMMANDS[options.command] if g.essential or any(fnmatchcase(g.name, o) for o in wanted)]
    if options.list:
        for group in COMMANDS[options.command]:
            print(f"{group.name:<20} at most {group.seconds:g} s")
        return ExitCode.PASSED
    if options.out is None:
        print("Fix: say where results go: --out DIR", file=sys.stderr)
        return ExitCode.USAGE
    if options.backend == GPU_BACKEND:
        found = look()
        if found.absent:
            print(f"no NVIDIA GPU here: no device node, and {found.driver_error}; nothing was run")
            return ExitCode.ABSENT if options.require_gpu else ExitCode.PASSED
        if found.problem is not None:
            print(f"GPU unusable: {found.problem}")
            return ExitCode.UNUSABLE
    elif options.require_gpu:
        print(f"`{options.backend}` is not a GPU. Fix: leave --backend or --require-gpu out.", file=sys.stderr)
        return ExitCode.ABSENT
    name = record_name(options.command, options.backend)
    context = Context(
        backend=options.backend,
        tests=_tests_folder(options.tests),
        seconds=options.budget,
        folder=(options.out / f"{name}.d").absolute(),
    )
    header = {
        "command": options.command,
        "backend": context.backend,
        "emulated": context.emulated,
        "budget_s": options.budget,
        "only": wanted,
        **describe(options.revision),
    }
    record = Record(options.out / f"{name}.json", header)
    if options.command == "bench":
        record.conclude = lambda done: {"goals": goals.judge(done, emulated=context.emulated)}
        bundle_of(record.path).unlink(missing_ok=True)  # the evidence of another run
    started = time.monotonic()
    verdicts = Supervisor(options.command, context).run(groups, record)
    code = exit_code(verdicts)
    record.header |= {"seconds": round(time.monotonic() - started, 1), "exit_code": int(code)}
    record.save()
    goals_found = record.conclude(record.groups).get("goals", ())
    for goal in goals_found:
        print(goal_line(goal))
    if record.samples and options.command == "bench":
        _write_evidence(record, goals_found, context, options.revision)
    print(f"written to {record.path}" + (" (EMULATED: no GPU took part)" if context.emulated else ""))
    return code


def _write_evidence(record: Record, found: Sequence[dict[str, Any]], context: Context, revision: str | None) -> None:
    """Write the bundle beside the record, and what it does not claim into the record."""
    bundle, device = bundle_of(record.path), device_name(record.device, context.backend)
    judged = write_evidence(bundle, record.samples, found, device=device, emulated=context.emulated, revision=revision)
    refused = [str(each) for each in judged if not each.verdict.supported]
    record.header |= {"evidence": bundle.name, "refused_claims": refused}
    record.save()
    for refusal in refused:
        print(f"not claimed: {refusal}")
    print(f"the samples and {len(judged) - len(refused)} claims are in {bundle}")


def goal_line(goal: dict[str, Any]) -> str:
    if goal["met"] is None:
        return f"{goal['goal']:<46} not measured"
    verdict = "met" if goal["met"] else "MISSED"
    return f"{goal['goal']:<46} {goal['value']:.3g}, {goal['relation']} {goal['bound']:.3g} {goal['unit']}: {verdict}"


def exit_code(verdicts: Sequence[GroupVerdict]) -> ExitCode:
    """Of a run whose groups came out as given."""
    if verdicts and verdicts[0] is GroupVerdict.UNAVAILABLE:
        return ExitCode.UNUSABLE
    return ExitCode.PASSED if verdicts and all(v.is_good for v in verdicts) else ExitCode.FAILED


def record_name(command: str, backend: str) -> str:
    """Of the record, without suffix.  A rehearsal never takes the name of a GPU's."""
    return f"gpu-{command}" if backend == GPU_BACKEND else f"rehearsal-{command}-{backend}"


def _tests_folder(given: Path | None) -> Path | None:
    """The repository's ``tests``: as given, else the folder that this package lies in."""
    for folder in (given, Path(__file__).parents[1]):
        if folder is not None and (folder / "data" / "function_checksums.json").is_file():
            return folder.resolve()
    return None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.gpu_runs",
        description="Prove (check) or measure (bench) the CUDA backend on the GPU of this machine.",
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("--out", type=Path, metavar="DIR", help="where the record and the logs go")
    parser.add_argument("--budget", type=float, default=540.0, metavar="SECONDS", help="for all groups together")
    parser.add_argument("--require-gpu", action="store_true", help="without a GPU: exit code 4 instead of 0")
    parser.add_argument("--backend", default=GPU_BACKEND, help="another one than `cuda`: a rehearsal, marked as such")
    parser.add_argument(
        "--only", action="append", metavar="GLOB", help="groups to run, beside the essential ones; may be repeated"
    )
    parser.add_argument("--list", action="store_true", help="list the groups and stop")
    parser.add_argument(
        "--tests", type=Path, metavar="DIR", help="the repository's tests folder, which some groups need"
    )
    parser.add_argument(
        "--revision", default=os.environ.get("VYRE_REVISION"), help="what to record as the git revision"
    )
    return parser
