"""Checks emitted PTX with the assembler ``ptxas``, many kernels at once, without a GPU.

Kernels of one target are joined into modules of many entries, because starting the assembler costs as much as ten
kernels; a module that it refuses is halved until the faulty kernel stands alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from vyre.adapters.cuda.code_tools import Assembler, AssemblyFailed
from vyre.adapters.cuda.code_tools import assemble as run_assembler
from vyre.adapters.cuda.ptx.kernel import EmittedModule

TARGETS: Final = (75, 80, 86, 89, 90, 100, 120)
"""The targets that every kernel must assemble for."""
ENTRIES: Final = 48
"""Maximum number of kernels in one module."""
_HEADER_LINES: Final = 3

_ENTRY: Final = re.compile(r"Compiling entry function '(\w+)'")
_SPILLS: Final = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED: Final = re.compile(r"Used (\d+) registers")
_SHARED: Final = re.compile(r"(\d+) bytes smem")


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources of an entry on a target: ``registers`` is a count, the other fields are bytes."""

    entry: str
    registers: int
    stack: int
    spill_stores: int
    spill_loads: int
    shared: int

    @property
    def spills(self) -> bool:
        """Whether registers are spilled to memory."""
        return bool(self.spill_stores or self.spill_loads)


def assemble(assembler: Assembler, ptx: str, target: int, *options: str) -> tuple[bytes, dict[str, Resources]]:
    """Returns the cubin of one module, and the resources of its entries by name.  Raises ``AssemblyFailed``."""
    cubin, log = run_assembler(assembler, ptx, f"sm_{target}", *options)
    return cubin, {found.entry: found for found in _resources(log)}


def _resources(log: str) -> Iterator[Resources]:
    for part in re.split(r"(?=Compiling entry function)", log)[1:]:
        entry, used = _ENTRY.search(part), _USED.search(part)
        assert entry and used, part
        spills, shared = _SPILLS.search(part), _SHARED.search(part)
        stack, stores, loads = map(int, spills.groups()) if spills else (0, 0, 0)
        yield Resources(entry[1], int(used[1]), stack, stores, loads, int(shared[1]) if shared else 0)


def joined(modules: Sequence[EmittedModule]) -> str:
    """Returns the text of all modules under one header; names of entries and at module scope must be distinct."""
    latest = max(modules, key=lambda module: tuple(map(int, module.version.split("."))))
    bodies = ["".join(module.ptx.splitlines(keepends=True)[_HEADER_LINES:]) for module in modules]
    return "".join([*latest.ptx.splitlines(keepends=True)[:_HEADER_LINES], *bodies])


@dataclass(frozen=True, slots=True)
class GateReport:
    """``resources`` by (target, entry); ``refused``: the log by (target, first entry) of each refused module."""

    resources: dict[tuple[int, str], Resources]
    refused: dict[tuple[int, str], str]


def assemble_all(
    assembler: Assembler, modules: Iterable[tuple[int, Sequence[EmittedModule]]], workers: int | None = None
) -> GateReport:
    """Assembles the modules of each target, in up to ``workers`` processes at a time (default: one for each CPU)."""
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
