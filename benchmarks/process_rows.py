"""Fresh processes: imports, the README example, memory."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from benchmarks.harness import Metric, Row, Samples

ROOT: Final = Path(__file__).resolve().parent.parent
_TIMED: Final = "import time\nstart = time.perf_counter()\n{body}\nprint(time.perf_counter() - start)"
_MEMORY: Final = """
from pathlib import Path
import numpy as np
import vyre
from benchmarks.kernels import counter

GROUPS, WORKGROUP = 1 << 20, 32

def peak():
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))

program = counter(WORKGROUP)
with vyre.open(backend="reference") as session:
    total = np.zeros(1, np.uint32)
    session.dispatch(program, {"total": total}, grid=(1, 1, 1))
    before = peak()
    result = session.dispatch(program, {"total": total}, grid=(GROUPS, 1, 1))
    assert result["total"][0] == GROUPS * WORKGROUP, result["total"]
    print((peak() - before) / 1024)
"""


_BYTE_CODE: Final = tempfile.TemporaryDirectory(prefix="vyre-bench-")


def _environment() -> dict[str, str]:
    """The caller's, but with byte code kept, in a folder of its own: both sides are measured warm."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": _BYTE_CODE.name}


def run_python(source: str) -> float:
    """The number that a fresh interpreter prints last."""
    done = subprocess.run(
        [sys.executable, "-c", source], cwd=ROOT, env=_environment(), check=True, capture_output=True, text=True
    )
    return float(done.stdout.split()[-1])


def readme_example() -> str:
    """The first Python block of the README that opens a session."""
    blocks: list[str] = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    return next(block for block in blocks if "vyre.open(" in block)


def _against_numpy_import(body: str, rounds: int) -> Samples:
    """Seconds inside the process, start of the interpreter excluded."""
    ours, theirs = _TIMED.format(body=body), _TIMED.format(body="import numpy")
    run_python(ours), run_python(theirs)  # byte code and file cache are warm
    pairs = [(run_python(ours), run_python(theirs)) for _ in range(rounds)]
    return Samples([a for a, _ in pairs], [b for _, b in pairs])


def _import(rounds: int) -> Samples:
    return _against_numpy_import("import vyre", rounds)


def _example(rounds: int) -> Samples:
    return _against_numpy_import(readme_example(), rounds)


def _memory(rounds: int) -> Samples:
    return Samples([run_python(_MEMORY) for _ in range(rounds)])


def _processor_seconds(*arguments: str) -> float:
    """Of a whole process, the start of its interpreter included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], cwd=ROOT, env=_environment(), check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _command(rounds: int) -> Samples:
    ours, theirs = ("-m", "vyre", "backends"), ("-c", "import numpy, typer, rich")
    _processor_seconds(*ours), _processor_seconds(*theirs)  # byte code and file cache are warm
    pairs = [(_processor_seconds(*ours), _processor_seconds(*theirs)) for _ in range(rounds)]
    return Samples([a for a, _ in pairs], [b for _, b in pairs])


_FILES: Final = "fresh process, byte code and files cached"
ROWS: Final = (
    Row("import-vyre", Metric.RATIO, "x import numpy", 0.5, None, _import, _FILES),
    Row("readme-example", Metric.RATIO, "x import numpy", 2.5, 1.8, _example, _FILES),
    Row("vyre-backends", Metric.RATIO, "x three imports", 2.5, 2.0, _command, f"{_FILES}; processor time"),
    Row("memory-2^20-groups", Metric.COST, "MiB", 64.0, None, _memory, "fresh process"),
)
