"""How fast the emulated machine executes PTX, with every check on."""

from __future__ import annotations

import struct
import time
from typing import Final

import numpy as np

from benchmarks.harness import Metric, Row, Samples
from benchmarks.kernels import FNV_OFFSET, FNV_PRIME, counted_hash
from vyre.adapters.cuda.machine.execution import KernelRun
from vyre.adapters.cuda.machine.memory import DeviceMemory
from vyre.adapters.cuda.machine.module import load_module
from vyre.adapters.cuda.machine.options import RunOptions
from vyre.adapters.cuda.ptx.emit import emit
from vyre.adapters.cuda.ptx.kernel import Parameter, ParameterKind
from vyre.adapters.cuda.seam import LaunchShape

THREADS: Final = 65_536
TRIPS: Final = 64


def integer_loop(rounds: int) -> Samples:
    """Lane-instructions a second, as the machine counts them, of a loop over one word a thread."""
    emitted = emit(counted_hash(THREADS, TRIPS))
    (kernel,) = emitted.kernels
    module, memory = load_module(emitted.ptx), DeviceMemory()
    module.instantiate(memory)
    hashes = memory.allocate(4 * THREADS)
    memory.fill(hashes, 0, 4 * THREADS)
    parameters = _packed(kernel.parameters, kernel.parameter_bytes, hashes)
    shape = LaunchShape((THREADS // kernel.block[0], 1, 1), kernel.block)
    found: list[float] = []
    for _ in range(rounds + 1):
        started = time.perf_counter()
        report = KernelRun(module.entries[kernel.entry], shape, parameters, memory, RunOptions()).finish()
        found.append(report.lane_instructions / (time.perf_counter() - started))
    assert np.array_equal(np.frombuffer(memory.read(hashes, 4 * THREADS), np.uint32), expected_hashes())
    return Samples(found[1:])  # the first run compiles the kernel


def expected_hashes() -> np.ndarray[tuple[int, ...], np.dtype[np.uint32]]:
    lanes = np.arange(THREADS, dtype=np.uint32)
    h = np.full(THREADS, FNV_OFFSET, np.uint32)
    for k in range(TRIPS):
        h = (h ^ (lanes + np.uint32(k))) * np.uint32(FNV_PRIME)
    return h


def _packed(parameters: tuple[Parameter, ...], nbytes: int, address: int) -> bytes:
    block = bytearray(nbytes)
    for parameter in parameters:
        match parameter.kind:
            case ParameterKind.POINTER:
                struct.pack_into("<Q", block, parameter.offset, address)
            case ParameterKind.COUNT:
                struct.pack_into("<I", block, parameter.offset, THREADS)
            case ParameterKind.SCALAR if parameter.value is not None:
                struct.pack_into("<I", block, parameter.offset, parameter.value)
            case other:
                raise AssertionError(f"the kernel has a parameter of kind {other.value}")
    return bytes(block)


ROWS: Final = (
    Row(
        "machine_rate",
        Metric.RATE,
        "M lane-instr/s",
        20.0,
        None,
        integer_loop,
        "kernel loaded; races, bounds, alignment and uninitialised reads checked",
        scale=1e-6,
    ),
)
