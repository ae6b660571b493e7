"""Many kernels in few modules: emitted one by one, loaded together, launched without a wait between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from gpu_runs.workbench import Workbench
from support.cuda.ptxas import joined
from vyre.adapters.cuda.ptx.emit import emit
from vyre.adapters.cuda.ptx.kernel import EmittedModule
from vyre.adapters.cuda.runtime.executor import launch_limits
from vyre.adapters.cuda.runtime.loaded import LoadedKernel, LoadedModule
from vyre.adapters.cuda.seam import CudaCallError, JitOptions
from vyre.domain.binding import plan_bindings
from vyre.domain.dispatch import DEFAULT_CONFIG
from vyre.domain.interface import resolve_launch
from vyre.testing.operator_programs import OperatorCase

ENTRIES: Final = 64
"""Kernels of a module."""


def run_batch(
    bench: Workbench, cases: Sequence[OperatorCase], jit: JitOptions
) -> Iterator[dict[str, bytes] | CudaCallError]:
    """Outputs by name of each case, or why its module could not be loaded."""
    for start in range(0, len(cases), ENTRIES):
        part = cases[start : start + ENTRIES]
        modules = [emit(case.program, bench.options()) for case in part]
        try:
            library = bench.driver.library_load(joined(modules).encode() + b"\0", jit).library
        except CudaCallError as error:
            yield from [error] * len(part)
            continue
        launched = [_launch(bench, library, case, module) for case, module in zip(part, modules, strict=True)]
        bench.synchronize()
        for outputs in launched:
            yield {
                name: bench.download(address, nbytes, np.uint8).tobytes() for name, (address, nbytes) in outputs.items()
            }
        bench.driver.library_unload(library)


def _launch(bench: Workbench, library: int, case: OperatorCase, emitted: EmittedModule) -> dict[str, tuple[int, int]]:
    """Enqueue the case; address and bytes of each output."""
    plan, driver = plan_bindings(case.program), bench.driver
    given = tuple(len(case.inputs[b.buffer.name]) for b in plan.bindings if b.buffer.takes_input)
    shape = resolve_launch(case.program, given, DEFAULT_CONFIG, launch_limits(bench.device))
    addresses: list[int] = []
    for binding, nbytes in zip(plan.bindings, shape.nbytes, strict=True):
        if binding.buffer.takes_input:
            addresses.append(bench.upload(np.frombuffer(case.inputs[binding.buffer.name], np.uint8)))
        else:
            addresses.append(bench.allocate(nbytes))
            bench.zero(addresses[-1], nbytes)
    handles = [driver.library_kernel(library, kernel.entry) for kernel in emitted.kernels]
    kernels = tuple(
        LoadedKernel(handle, kernel, driver.kernel_facts(handle))
        for handle, kernel in zip(handles, emitted.kernels, strict=True)
    )
    module = LoadedModule(library, kernels)
    bench.prepare(case.program, module, shape.grid, addresses, shape.counts)()
    return {
        binding.buffer.name: (address, nbytes)
        for binding, address, nbytes in zip(plan.bindings, addresses, shape.nbytes, strict=True)
        if binding.buffer.is_returned
    }
