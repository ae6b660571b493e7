"""The operator matrix at the lowest and the highest optimisation level of the driver's compiler.

Both levels must give the bytes of the reference; where they differ from each other, the compiler is at fault.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpu_runs.check.batches import ENTRIES, run_batch
from gpu_runs.context import Context
from gpu_runs.findings import Fact, Finding
from gpu_runs.workbench import Workbench, has_driver
from vyre.adapters.cuda.seam import CudaCallError, JitOptions
from vyre.testing.execution import execute, open_backend
from vyre.testing.operator_programs import OperatorCase, operator_cases
from vyre.testing.outcomes import Outcome, Verdict


def level_0(context: Context) -> Iterator[Finding]:
    yield from _operators(context, 0)


def level_4(context: Context) -> Iterator[Finding]:
    yield from _operators(context, 4)


def _operators(context: Context, level: int) -> Iterator[Finding]:
    if not has_driver(context.backend):
        yield Outcome("operators", Verdict.SKIPPED, f"`{context.backend}` has no CUDA driver")
        return
    cases = list(operator_cases())
    if context.emulated:
        cases = cases[::25]  # the contract suite has them all
    reference = open_backend("reference")
    yield Fact("modules", -(-len(cases) // ENTRIES))
    with Workbench(context.backend) as bench:
        for case, found in zip(cases, run_batch(bench, cases, JitOptions(level=level)), strict=True):
            yield _judge(case, found, execute(reference, case.program, case.inputs))


def _judge(case: OperatorCase, found: dict[str, bytes] | CudaCallError, wanted: dict[str, bytes]) -> Outcome:
    if isinstance(found, CudaCallError):
        return Outcome(case.name, Verdict.FAILED, str(found))
    wrong = []
    for output, right in wanted.items():
        if found[output] != right:
            size = len(right) // (case.program.buffer(output).count or 1)
            at = next(k for k in range(0, len(right), size) if found[output][k : k + size] != right[k : k + size])
            given = ", ".join(_element(data, at // size, len(right) // size) for data in case.inputs.values())
            got, want = found[output][at : at + size][::-1].hex(), right[at : at + size][::-1].hex()
            wrong.append(f"{output} of ({given}) is 0x{got}, not 0x{want}")
    return Outcome(case.name, Verdict.FAILED if wrong else Verdict.PASSED, "; ".join(wrong))


def _element(data: bytes, index: int, count: int) -> str:
    size = len(data) // count
    return "0x" + data[index * size : (index + 1) * size][::-1].hex()
