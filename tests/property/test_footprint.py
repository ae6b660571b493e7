"""Memory does not grow with the grid: the vectorised engine works chunk by chunk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.limits import LIMIT_S

PROGRAM = """
from pathlib import Path
import numpy as np
import vyre
from vyre import ProgramBuilder, u32

GROUPS, WORKGROUP = 1 << 20, 8


def peak_kib():
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))


with ProgramBuilder("counter", workgroup=WORKGROUP) as p:
    total = p.inout("total", u32, 1)
    total.atomic_add(0, 1)
counter = p.build()
with vyre.open(backend="reference") as session:
    zero = np.zeros(1, np.uint32)
    session.dispatch(counter, {"total": zero}, grid=(1, 1, 1))
    before = peak_kib()
    result = session.dispatch(counter, {"total": zero}, grid=(GROUPS, 1, 1))
    assert result["total"][0] == GROUPS * WORKGROUP
    print(peak_kib() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of a process is read from Linux's procfs")
def test_a_million_workgroups_take_less_than_64_mib() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=LIMIT_S)
    assert int(done.stdout) < 64 * 1024
