"""``python -m benchmarks [--suite GLOB]... [--only GLOB]... [--rounds N] [--json PATH]``; exit 1 if a required number
is missed.  Every suite has a record of its own under ``results/``, and beside it a bundle of evidence with all samples,
which ``vyre replay`` judges again."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks import (
    array_rows,
    cache_key_rows,
    command_line,
    cpu_rows,
    cpu_wall_rows,
    decision_clock,
    decision_rows,
    dialect_law_rows,
    disk_cache_rows,
    egraph_rows,
    emission_rows,
    engine_rows,
    evidence,
    fixpoint_rows,
    graph_rows,
    host_rows,
    interpreter_rows,
    joined_step_rows,
    kernel_rows,
    launch_rows,
    machine,
    megakernel_rows,
    memory_cache_rows,
    optimizer_rows,
    persistent_rows,
    prediction_rows,
    process_rows,
    query_rows,
    reading_rows,
    regret,
    replay_rows,
    shadow_rows,
    stored_result_rows,
    tinygrad_rows,
    work_queue_rows,
)
from benchmarks.harness import Outcome, Row, evaluate

SUITES: Final[dict[str, tuple[Row, ...]]] = {
    "reference-engine": (*engine_rows.ROWS, *host_rows.ROWS, *process_rows.ROWS, *reading_rows.ROWS),
    "cuda-host": (*emission_rows.ROWS, *interpreter_rows.ROWS, *launch_rows.ROWS, *replay_rows.ROWS),
    "decisions": decision_rows.ROWS,
    "prediction": prediction_rows.ROWS,
    "caches": (*memory_cache_rows.ROWS, *disk_cache_rows.ROWS, *cache_key_rows.ROWS, *stored_result_rows.ROWS),
    "regret": regret.ROWS,
    "decision-clock": decision_clock.ROWS,
    "kernels": kernel_rows.ROWS,
    "persistent": persistent_rows.ROWS,
    "fixed-points": fixpoint_rows.ROWS,
    "work-queues": work_queue_rows.ROWS,
    "egraphs": egraph_rows.ROWS,
    "graphs": graph_rows.ROWS,
    "optimizer": optimizer_rows.ROWS,
    "dialect-laws": dialect_law_rows.ROWS,
    "joined-steps": joined_step_rows.ROWS,
    "megakernels": megakernel_rows.ROWS,
    "arrays": array_rows.ROWS,
    "queries": query_rows.ROWS,
    "tinygrad": tinygrad_rows.ROWS,
    "shadow": shadow_rows.ROWS,
    "cpu": (*cpu_rows.ROWS, *cpu_wall_rows.ROWS),
}
DETAILS: Final[dict[str, Callable[[], dict[str, object]]]] = {
    "regret": regret.details,
    "cpu": cpu_rows.details,
    "decision-clock": decision_clock.details,
    "persistent": persistent_rows.details,
}
"""Further parts of the record of a suite, by its name."""
EVIDENCE: Final = ".evidence.zip"
RESULTS: Final = Path(__file__).parent / "results"


def main(arguments: list[str] | None = None) -> int:
    options = command_line.parser(SUITES).parse_args(arguments)
    chosen = command_line.chosen(SUITES, options)
    if not chosen:
        known = ", ".join(row.name for rows in SUITES.values() for row in rows)
        only, suite = " or ".join(options.only or command_line.ALL), " or ".join(options.suite or command_line.ALL)
        print(f"no row matches {only} in suite {suite}; rows: {known}", file=sys.stderr)
        return 2
    missed = False
    print(f"{'row':<36}{'value':>10}{'+- IQR':>10}  {'unit':<17}{'required':>9}{'aim':>8}  verdict")
    for name, rows in chosen.items():
        missed |= _run_suite(name, rows, options)
    return int(missed)


def _run_suite(name: str, rows: list[Row], options: argparse.Namespace) -> bool:
    """True if a required number is missed."""
    record: dict[str, object] = {"machine": machine.describe()}
    outcomes: list[Outcome] = []
    for row in rows:
        outcomes.append(evaluate(row, options.rounds))
        print(_line(outcomes[-1]), flush=True)
    record["load_average_after"] = list(os.getloadavg()) if hasattr(os, "getloadavg") else None
    record["rows"] = [outcome.as_json() for outcome in outcomes]
    if name in DETAILS:
        record["details"] = DETAILS[name]()
    # A partial run must not replace the record of a full one.
    target = options.json or (RESULTS / f"{name}.json" if len(rows) == len(SUITES[name]) else None)
    if target is not None:
        target.parent.mkdir(parents=True, exist_ok=True)
        bundle = target.with_suffix(EVIDENCE)
        judged = evidence.write_evidence(bundle, outcomes)
        record["evidence"] = bundle.name
        record["refused_claims"] = refused = [str(each) for each in judged if not each.verdict.supported]
        target.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        for refusal in refused:
            print(f"not claimed: {refusal}")
        print(f"written to {target}; its samples and {len(judged) - len(refused)} claims to {bundle}")
    return any(outcome.verdict == "MISSED" for outcome in outcomes)


def _line(outcome: Outcome) -> str:
    row = outcome.row
    required, aim = ("-" if number is None else f"{number:g}" for number in (row.required, row.aim))
    if outcome.missing:
        return f"{row.name:<36}not measured: {outcome.missing}"
    return (
        f"{row.name:<36}{outcome.value:>10.3g}{outcome.spread:>10.2g}  {row.unit:<17}"
        f"{required:>9}{aim:>8}  {outcome.verdict}"
    )


if __name__ == "__main__":
    sys.exit(main())
