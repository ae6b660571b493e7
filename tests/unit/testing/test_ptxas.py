"""The assembler as a checker: it finds the kernel at fault, and reads what kernels need."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.cuda.ptxas import assemble, assemble_all, joined
from vyre.adapters.cuda.code_tools import AssemblyFailed, assemblers
from vyre.adapters.cuda.ptx.emit import emit
from vyre.adapters.cuda.ptx.kernel import EmittedModule
from vyre.domain.ir.builder import ProgramBuilder
from vyre.domain.ir.types import u32

ASSEMBLERS = assemblers()
pytestmark = pytest.mark.skipif(not ASSEMBLERS, reason="no ptxas: install the dependency group `ptxas`")


def kernel(factor: int, *, live: int = 1) -> EmittedModule:
    """A kernel with ``live`` values in registers at once."""
    with ProgramBuilder(f"times {factor}", workgroup=64) as p:
        x, y = p.input("x", u32), p.output("y", u32, like="x")
        scratch = p.workgroup("scratch", u32, 64)
        scratch[p.local_id()] = x[p.global_id()]
        values = [p.let(x[p.global_id() * live + k] * factor) for k in range(live)]
        p.barrier()
        for k, value in enumerate(values):
            y[p.global_id() * live + k] = value + scratch[p.local_id()]
    return emit(p.build())


def test_the_kernel_at_fault_is_found_among_many() -> None:
    modules = [kernel(factor) for factor in range(2, 9)]
    modules[3] = replace(modules[3], ptx=modules[3].ptx.replace("ret;", "retire;"))
    report = assemble_all(ASSEMBLERS[0], [(90, modules)])
    assert set(report.refused) == {(90, modules[3].kernels[0].entry)}
    assert "retire" in next(iter(report.refused.values()))
    assert {entry for _, entry in report.resources} == {m.kernels[0].entry for m in modules if m is not modules[3]}


def test_needs_are_read() -> None:
    _, found = assemble(ASSEMBLERS[0], joined([kernel(3), kernel(4)]), 90)
    assert len(found) == 2
    for needs in found.values():
        assert 8 <= needs.registers <= 64 and needs.shared == 256 and not needs.spills


@pytest.mark.parametrize(("live", "spills"), [(60, False), (300, True)])
def test_spills_are_read(live: int, spills: bool) -> None:
    module = kernel(3, live=live)
    _, found = assemble(ASSEMBLERS[0], module.ptx, 90)
    assert found[module.kernels[0].entry].spills is spills


def test_a_refusal_says_why() -> None:
    with pytest.raises(AssemblyFailed, match="line 1"):
        assemble(ASSEMBLERS[0], "nonsense", 90)
