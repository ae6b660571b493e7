"""Results a second of each transcendental function, by the kernels that check them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gpu_runs.bench.timing import spread
from gpu_runs.check.checksums import checksum_program
from gpu_runs.context import Context
from gpu_runs.findings import Fact, Finding
from gpu_runs.workbench import Workbench, has_driver
from vyre.domain.ir.operators import TRANSCENDENTALS
from vyre.testing.outcomes import Outcome, Verdict


def functions(context: Context) -> Iterator[Finding]:
    """Over the inputs from 0.5 to 8 and beyond: where the functions have work to do."""
    if not has_driver(context.backend):
        yield Outcome("functions", Verdict.SKIPPED, f"`{context.backend}` has no CUDA driver")
        return
    first, lanes, each, rounds = (0x3F00_0000, 512, 2, 2) if context.emulated else (0x3F00_0000, 1 << 20, 32, 7)
    found: dict[str, Any] = {}
    with Workbench(context.backend) as bench:
        total = bench.allocate(256)
        for op in sorted(TRANSCENDENTALS, key=lambda op: op.name):
            program = checksum_program(op)
            with bench.module(program) as module:
                grid = (lanes // program.workgroup_size[0], 1, 1)
                values = {"first": np.uint32(first).tobytes(), "each": np.uint32(each).tobytes()}
                bench.zero(total, 256)
                launch = bench.prepare(program, module, grid, (0, 0, total), (1, 1, 1), values)
                launch()
                bench.synchronize()
                rates = [lanes * each / 1e6 / bench.device_ms(launch) for _ in range(rounds)]
                facts = module.kernels[0].facts
                found[op.name.lower()] = spread(rates, unit="G/s", registers=facts.registers)
            yield Fact("functions", dict(found))
