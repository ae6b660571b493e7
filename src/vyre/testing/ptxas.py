"""The assembler as a checker: every kernel through ``ptxas``, many at once, without a GPU.

Kernels of one target are joined into modules of many entries, because starting the assembler costs as much as ten
kernels; a module that it refuses is halved until the kernel at fault stands alone.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from vyre.adapters.cuda.ptx.kernel import EmittedModule

TARGETS: Final = (75, 80, 86, 89, 90, 100, 120)
"""The targets that every kernel must assemble for."""
ENTRIES: Final = 48
"""Kernels of one module."""
_HEADER_LINES: Final = 3
_TIMEOUT_S: Final = 300.0

_ENTRY: Final = re.compile(r"Compiling entry function '(\w+)'")
_SPILLS: Final = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED: Final = re.compile(r"Used (\d+) registers")
_SHARED: Final = re.compile(r"(\d+) bytes smem")


def find_tools(name: str) -> tuple[Path, ...]:
    """Every ``ptxas``, ``nvdisasm``, ... at hand: on PATH, in the toolkit, in the NVIDIA wheels."""
    found = [shutil.which(name), *(shutil.which(name, path=str(folder)) for folder in _folders())]
    return tuple(dict.fromkeys(Path(path).resolve() for path in found if path))


def _folders() -> Iterator[Path]:
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable], "bin")
    yield Path("/usr/local/cuda/bin")
    wheels = find_spec("nvidia")
    for root in wheels.submodule_search_locations or () if wheels else ():
        yield from sorted(Path(root).glob("*/bin"))


@dataclass(frozen=True, slots=True)
class Assembler:
    """``version`` as (major, minor); ``build`` as it prints it, ``13.0.88``."""

    path: Path
    version: tuple[int, int]
    build: str


def assemblers() -> tuple[Assembler, ...]:
    """One of each build, the first found first; empty where there is none."""
    found: dict[str, Assembler] = {}
    for path in find_tools("ptxas"):
        text = subprocess.run([str(path), "--version"], capture_output=True, text=True, check=True).stdout
        match = re.search(r"V((\d+)\.(\d+)\.\d+)", text)
        if match:
            found.setdefault(match[1], Assembler(path, (int(match[2]), int(match[3])), match[1]))
    return tuple(found.values())


class AssemblyFailed(Exception):
    """The assembler refused a module; the text is its log."""


@dataclass(frozen=True, slots=True)
class Resources:
    """What an entry needs on a target.  Bytes but for ``registers``."""

    entry: str
    registers: int
    stack: int
    spill_stores: int
    spill_loads: int
    shared: int

    @property
    def spills(self) -> bool:
        return bool(self.spill_stores or self.spill_loads)


def assemble(assembler: Assembler, ptx: str, target: int, *options: str) -> tuple[bytes, dict[str, Resources]]:
    """The cubin of one module, and the needs of its entries by name.  Raises ``AssemblyFailed``."""
    with tempfile.TemporaryDirectory(prefix="vyre-ptxas-") as folder:
        source, cubin = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx)
        command = [str(assembler.path), f"-arch=sm_{target}", "-v", *options, str(source), "-o", str(cubin)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S)
        log = done.stdout + done.stderr
        if done.returncode:
            raise AssemblyFailed(log.replace(str(source), "kernel.ptx").strip() or f"exit code {done.returncode}")
        return cubin.read_bytes(), {found.entry: found for found in _resources(log)}


def _resources(log: str) -> Iterator[Resources]:
    for part in re.split(r"(?=Compiling entry function)", log)[1:]:
        entry, used = _ENTRY.search(part), _USED.search(part)
        assert entry and used, part
        spills, shared = _SPILLS.search(part), _SHARED.search(part)
        stack, stores, loads = map(int, spills.groups()) if spills else (0, 0, 0)
        yield Resources(entry[1], int(used[1]), stack, stores, loads, int(shared[1]) if shared else 0)


def joined(modules: Sequence[EmittedModule]) -> str:
    """The text of all of them under one header; entries and module-scope names are all different."""
    latest = max(modules, key=lambda module: tuple(map(int, module.version.split("."))))
    bodies = ["".join(module.ptx.splitlines(keepends=True)[_HEADER_LINES:]) for module in modules]
    return "".join([*latest.ptx.splitlines(keepends=True)[:_HEADER_LINES], *bodies])


@dataclass(frozen=True, slots=True)
class GateReport:
    """``resources`` by (target, entry); ``refused``: the log by (target, first entry) of each module refused."""

    resources: dict[tuple[int, str], Resources]
    refused: dict[tuple[int, str], str]


def assemble_all(
    assembler: Assembler, modules: Iterable[tuple[int, Sequence[EmittedModule]]], workers: int | None = None
) -> GateReport:
    """Assembles, for each target, its modules, in ``workers`` processes at a time (default: one for each CPU)."""
    report = GateReport({}, {})
    with ThreadPoolExecutor(workers or os.cpu_count()) as pool:
        jobs = [
            pool.submit(_assemble_batch, assembler, target, batch[start : start + ENTRIES])
            for target, batch in modules
            for start in range(0, len(batch), ENTRIES)
        ]
        for job in jobs:
            part = job.result()
            report.resources.update(part.resources)
            report.refused.update(part.refused)
    return report


def _assemble_batch(assembler: Assembler, target: int, batch: Sequence[EmittedModule]) -> GateReport:
    try:
        _, found = assemble(assembler, joined(batch), target)
    except AssemblyFailed as error:
        if len(batch) == 1:
            return GateReport({}, {(target, batch[0].kernels[0].entry): str(error)})
        half = len(batch) // 2
        parts = [_assemble_batch(assembler, target, part) for part in (batch[:half], batch[half:])]
        return GateReport(parts[0].resources | parts[1].resources, parts[0].refused | parts[1].refused)
    return GateReport({(target, entry): needs for entry, needs in found.items()}, {})
