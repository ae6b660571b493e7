"""The known miscompiles of the driver's compiler: does it have them, and do our remedies hold?

Every reduced kernel of the table runs at levels 0 and 4.  Its remedied form must be right at both; whether the bad form
is wrong is a fact about this driver, recorded and no failure.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpu_runs.check.reduced_ptx import reduced_ptx
from gpu_runs.check.reproducers import REPRODUCERS, Reproducer
from gpu_runs.context import Context
from gpu_runs.findings import Fact, Finding
from gpu_runs.workbench import Workbench, has_driver
from vyre.adapters.cuda.decisions.ptx_target import TargetInputs, select_target
from vyre.adapters.cuda.decisions.ptxas_hazard_table import HAZARDS
from vyre.adapters.cuda.seam import (
    CudaCallError,
    DeviceAddress,
    JitOptions,
    LaunchShape,
    ParameterBlock,
    ParameterPlace,
)
from vyre.testing.outcomes import Outcome, Verdict

LEVELS = (0, 4)
_ENTRY = "hazard"


def hazards(context: Context) -> Iterator[Finding]:
    if not has_driver(context.backend):
        yield Outcome("hazards", Verdict.SKIPPED, f"`{context.backend}` has no CUDA driver")
        return
    reproduced: dict[str, dict[str, str]] = {}
    with Workbench(context.backend) as bench:
        out = bench.allocate(256)
        for hazard in HAZARDS:
            if (reproducer := REPRODUCERS.get(hazard.name)) is None:
                continue
            for level in LEVELS:
                name = f"{hazard.name}, level {level}"
                yield _judge(name, reproducer, _run(bench, reproducer, reproducer.remedied, level, out))
                found = _run(bench, reproducer, reproducer.reduced, level, out)
                reproduced.setdefault(hazard.name, {})[f"level {level}"] = _described(reproducer, found)
    yield Fact("bad forms", reproduced)


def _run(bench: Workbench, reproducer: Reproducer, body: str, level: int, out: DeviceAddress) -> int | CudaCallError:
    """What the first lane stores, or why the text cannot be loaded."""
    target = select_target(TargetInputs(bench.device.facts.target))
    text = reduced_ptx(_ENTRY, body, target.version_text, target.text)
    bench.upload(np.array([reproducer.n], np.uint32), out)
    parameters = ParameterBlock([ParameterPlace(0, 8, "Q"), ParameterPlace(8, 4, "I"), ParameterPlace(12, 4, "I")])
    parameters.pack(out, reproducer.n, 0)
    driver = bench.driver
    try:
        library = driver.library_load(text.encode() + b"\0", JitOptions(level=level)).library
    except CudaCallError as error:
        return error
    kernel = driver.library_kernel(library, _ENTRY)
    driver.prepare_launch(kernel, LaunchShape((1, 1, 1), (1, 1, 1)), bench.stream, parameters)()
    found = int(bench.download(out, 1, np.uint32)[0])
    driver.library_unload(library)
    return found


def _judge(name: str, reproducer: Reproducer, found: int | CudaCallError) -> Outcome:
    if isinstance(found, CudaCallError):
        return Outcome(name, Verdict.FAILED, str(found))
    right = found == reproducer.right
    return Outcome(name, Verdict.PASSED if right else Verdict.FAILED, "" if right else _described(reproducer, found))


def _described(reproducer: Reproducer, found: int | CudaCallError) -> str:
    if isinstance(found, CudaCallError):
        return f"not loaded: {found.name}"
    return "right" if found == reproducer.right else f"wrong: {found:#x}, not {reproducer.right:#x}"
