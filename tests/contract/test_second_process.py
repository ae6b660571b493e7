"""What one process has compiled, the next one finds: the whole gallery, with nothing left to emit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from support.limits import LIMIT_S

RUN = """
import json, sys
import vyre
from vyre.domain.validation.known import is_checked
from vyre.gallery.registry import examples

outcomes, digests, verdicts = {}, {}, []
with vyre.open("cuda-machine") as session:
    for name, example in examples().items():
        program, case = vyre.Program.from_text(example.program().to_text()), example.case()
        pipeline = session.compile(program, case.config)
        if is_checked(program):
            verdicts.append(name)
        outcomes[name] = [pipeline.cache.value, pipeline.reason]
        if name in sys.argv[1:]:
            result = session.dispatch(program, case.inputs, case.config)
            digests[name] = [result[output].tobytes().hex() for output in result.keys()]
    metrics = session.metrics()
print(json.dumps({"outcomes": outcomes, "digests": digests, "metrics": metrics, "validated": verdicts}))
"""
EXECUTED = ("P01", "P05", "P10", "P16", "P24")
"""Run as well as compiled: the machine is slow."""


def run(code: str, cache: Path, *arguments: str, **environment: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        env=os.environ | {"VYRE_CACHE_DIR": str(cache)} | environment,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_second_process_emits_nothing_and_gives_the_same_bytes(tmp_path: Path) -> None:
    first, second = (run(RUN, tmp_path / "cache", *EXECUTED, PYTHONHASHSEED=seed) for seed in ("1", "2"))
    assert first["metrics"]["emits"] >= len(first["outcomes"])
    assert {outcome for outcome, _ in first["outcomes"].values()} == {"miss"}
    assert second["metrics"]["emits"] == 0
    assert first["validated"] == list(first["outcomes"])
    assert second["validated"] == []
    assert second["outcomes"] == {name: ["hit", ""] for name in first["outcomes"]}
    assert second["digests"] == first["digests"]
