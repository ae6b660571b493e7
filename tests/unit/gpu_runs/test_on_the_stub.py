"""The bare side of the launch benchmark over the driver stub, and that a driver that runs no kernels passes nothing."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_runs.exit_codes import ExitCode
from support.cuda import stub as cuda_stub
from support.limits import LIMIT_S

pytestmark = pytest.mark.skipif(not cuda_stub.can_build(), reason=cuda_stub.NO_COMPILER)

BARE = """
import json
from support.cuda.stub import StubControl
from gpu_runs.bench.rivals import bindings

sides, control = bindings(256), StubControl()
control.take_log()
sides.launches["cuLaunchKernelEx, packed before"]()
sides.waited["bare, cuStreamSynchronize"]()
sides.waited["bare, cuStreamQuery"]()
print(json.dumps([dict(launch) for launch in control.take_launches()]))
"""

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cuda_stub.build(tmp_path_factory.mktemp("stub"))


def test_the_bare_side_launches_four_arguments(stub: Path) -> None:
    launches = json.loads(cuda_stub.run(BARE, stub))
    assert len(launches) == 3
    for launch in launches:
        assert (launch["kernel"], launch["grid"], launch["block"]) == ("saxpy", "1,1,1", "256,1,1")
        x, y, a, n = struct.unpack("<QQfI", bytes.fromhex(launch["parameters"]))
        assert x != y and (a, n) == (1.0, 256)


def test_a_driver_that_runs_no_kernels_passes_nothing(stub: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.gpu_runs", "bench", "--out", str(tmp_path), "--budget", "60"]
    environment = cuda_stub.environment(stub)
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    assert done.returncode == ExitCode.FAILED, done.stdout + done.stderr
    record = json.loads((tmp_path / "gpu-bench.json").read_text())
    assert record["groups"][0]["failures"][0]["name"] == "one store"
    assert {goal["met"] for goal in record["goals"]} == {None}
