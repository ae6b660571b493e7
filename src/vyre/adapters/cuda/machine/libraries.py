"""Loaded code: the images that the machine refuses, the facts about kernels, and the launches that it refuses."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import prod
from typing import Final

from vyre.adapters.cuda.codes import Result
from vyre.adapters.cuda.machine.faults import PtxError
from vyre.adapters.cuda.machine.memory import DeviceMemory
from vyre.adapters.cuda.machine.module import LoadedModule, MachineEntry, load_module
from vyre.adapters.cuda.machine.presets import REGISTERS, DevicePreset, newest_ptx
from vyre.adapters.cuda.machine.status import Status
from vyre.adapters.cuda.seam import JitOptions, KernelFacts, LaunchShape
from vyre.policies.devices.occupancy import KernelUsage, estimate

_VERSION: Final = re.compile(r"^[ \t]*\.version[ \t]+(\d{1,3})\.(\d{1,3})\b", re.MULTILINE)
_TARGET: Final = re.compile(r"^[ \t]*\.target[ \t]+sm_(\d{1,4})", re.MULTILINE)
_MACHINE_CODE: Final = (b"\x7fELF", b"\x50\xed\x55\xba")
_MAX_REGISTERS: Final = 255
_LEVELS: Final = range(5)


@dataclass(slots=True, eq=False)
class Library:
    """A loaded library.

    ``kernels`` holds, by name, the handles of the kernels that were looked up.  ``max_registers`` is the caller's
    limit.
    """

    handle: int
    ptx_version: int
    loaded: LoadedModule
    max_registers: int | None
    kernels: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class KernelCode:
    """A kernel of a loaded library.  ``shared_limit`` is the dynamic shared memory that a launch may use, in bytes."""

    handle: int
    name: str
    library: Library
    entry: MachineEntry
    registers: int
    shared_limit: int

    @property
    def max_threads(self) -> int:
        """Returns the size of the largest block whose registers fit a multiprocessor."""
        per_warp = -(-self.registers * 32 // 256) * 256
        return min(1024, REGISTERS // per_warp // 4 * 4 * 32)


def load(
    handle: int, image: bytes, options: JitOptions, preset: DevicePreset, driver_version: int, memory: DeviceMemory
) -> Library:
    """Compiles PTX text as the driver's JIT would: checks version and target first, then the text.  Raises
    ``Status``.
    """
    if options.level is not None and options.level not in _LEVELS:
        raise Status(Result.INVALID_VALUE, f"no optimisation level {options.level}")
    if image.startswith(_MACHINE_CODE):
        raise Status(Result.NO_BINARY_FOR_GPU, "the machine runs PTX text, no machine code")
    text, nul, _ = image.partition(b"\0")
    version, target = (pattern.search(text.decode("latin-1")) for pattern in (_VERSION, _TARGET))
    if version is None or target is None:
        raise Status(Result.INVALID_IMAGE, "neither PTX text nor machine code: no .version and .target")
    if not nul:
        raise Status(Result.INVALID_PTX, "the PTX text does not end in NUL, so the driver would read on behind it")
    asked, newest = 10 * int(version[1]) + int(version[2]), newest_ptx(driver_version)
    if asked > newest:
        raise Status(
            Result.UNSUPPORTED_PTX_VERSION, f"PTX {_dotted(asked)}; driver {driver_version} takes {_dotted(newest)}"
        )
    if int(target[1]) > preset.target:
        raise Status(Result.NO_BINARY_FOR_GPU, f"for sm_{target[1]}; the device is sm_{preset.target}")
    try:
        module = load_module(text.decode("ascii"))
    except UnicodeDecodeError as bad:
        raise Status(Result.INVALID_PTX, f"byte {bad.start} is not ASCII") from None
    except PtxError as bad:
        raise Status(Result.INVALID_PTX, f"ptxas application ptx input, {bad}") from None
    return Library(handle, asked, module.instantiate(memory), options.max_registers)


def kernel_of(handle: int, library: Library, name: str, preset: DevicePreset) -> KernelCode:
    """Returns the kernel of an entry.  Raises ``Status`` if the library has no entry of this name."""
    entry = library.loaded.entries.get(name)
    if entry is None:
        raise Status(Result.NOT_FOUND, f"no entry {name}; there are {', '.join(library.loaded.entries) or 'none'}")
    limit = max(0, preset.shared_per_block - entry.static_shared)
    return KernelCode(handle, name, library, entry, _registers(entry, library.max_registers), limit)


def _registers(entry: MachineEntry, limit: int | None) -> int:
    """Returns an estimate of the registers that an assembler would allocate, because PTX registers are virtual.

    The estimate is low enough for a block of the declared size to fit.
    """
    guess = 16 + entry.registers // 8
    fitting = REGISTERS // max(prod(entry.required_block or (1, 1, 1)), 128)
    return min(guess, limit or _MAX_REGISTERS, _MAX_REGISTERS, fitting)


def facts(kernel: KernelCode, preset: DevicePreset) -> KernelFacts:
    """Returns the facts about a kernel; its registers are an estimate."""
    entry = kernel.entry
    return KernelFacts(
        registers=kernel.registers,
        static_shared=entry.static_shared,
        local_bytes=0,
        constant_bytes=entry.parameter_bytes,
        max_threads=kernel.max_threads if entry.required_block is None else prod(entry.required_block),
        ptx_version=kernel.library.ptx_version,
        binary_version=preset.target,
        parameters=entry.parameters,
    )


def allow_dynamic_shared(kernel: KernelCode, nbytes: int, preset: DevicePreset) -> None:
    """Sets the dynamic shared memory that launches may use.  Raises ``Status`` if the device has less."""
    most = preset.sm.shared_bytes_per_block - kernel.entry.static_shared
    if not 0 <= nbytes <= most:
        raise Status(Result.INVALID_VALUE, f"{nbytes} bytes of dynamic shared memory; at most {most} for {kernel.name}")
    kernel.shared_limit = nbytes


def resident_blocks(kernel: KernelCode, threads: int, dynamic_shared: int, preset: DevicePreset) -> int:
    """Returns the number of blocks that a multiprocessor holds at once."""
    if threads <= 0 or dynamic_shared < 0:
        raise Status(Result.INVALID_VALUE, f"{threads} threads, {dynamic_shared} bytes of dynamic shared memory")
    if threads > min(preset.max_threads_per_block, kernel.max_threads):
        return 0
    entry = kernel.entry
    barriers = len({block.barrier for block in entry.code.blocks} - {None})
    usage = KernelUsage(kernel.registers, entry.static_shared, dynamic_shared, threads, barriers)
    return estimate(preset.sm, usage).active_blocks_per_sm


def check_launch(kernel: KernelCode, shape: LaunchShape, preset: DevicePreset) -> int:
    """Returns the number of blocks that are resident at once.  Raises ``Status`` for a launch that the driver
    refuses.
    """
    threads, blocks = prod(shape.block), prod(shape.grid)
    bad = Result.INVALID_VALUE
    for what, asked, most in (("block", shape.block, preset.max_block), ("grid", shape.grid, preset.max_grid)):
        if any(not 0 < n <= limit for n, limit in zip(asked, most, strict=True)):
            raise Status(bad, f"{what} {asked}; each dimension is at least 1, at most {most}")
    if threads > preset.max_threads_per_block:
        raise Status(bad, f"{threads} threads in a block; the device takes {preset.max_threads_per_block}")
    required = kernel.entry.required_block
    if required is not None and tuple(shape.block) != tuple(required):
        raise Status(bad, f"block {shape.block}; {kernel.name} requires {required}")
    if not 0 <= shape.dynamic_shared <= kernel.shared_limit:
        raise Status(bad, f"{shape.dynamic_shared} bytes of dynamic shared memory; {kernel.shared_limit} are allowed")
    fits = preset.multiprocessors * resident_blocks(kernel, threads, shape.dynamic_shared, preset)
    if fits == 0:
        why = f"{threads} threads of {kernel.registers} registers; {kernel.max_threads} fit"
        raise Status(Result.LAUNCH_OUT_OF_RESOURCES, why)
    if shape.cooperative and not preset.cooperative:
        raise Status(Result.NOT_SUPPORTED, "the device has no cooperative launches")
    if shape.cooperative and blocks > fits:
        why = f"{blocks} blocks in a cooperative launch; {fits} are resident at once"
        raise Status(Result.COOPERATIVE_LAUNCH_TOO_LARGE, why)
    return min(blocks, fits)


def _dotted(version: int) -> str:
    return f"{version // 10}.{version % 10}"
