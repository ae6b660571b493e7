"""The profile of the processor, which is known without a thread, a compiler or a kernel."""

from __future__ import annotations

import sys
from typing import Final

from vyre.adapters.cpu.ids import CPU
from vyre.adapters.cpu.native.compilation import llvm_version
from vyre.adapters.cpu.native.features import AARCH64, X86_64, CpuFeatures, host
from vyre.adapters.cpu.pool.options import cpu_text, default_threads, usable_cpus
from vyre.adapters.cpu.runtime.options import CpuOptions
from vyre.adapters.cpu.runtime.pipeline import MAX_GRID, MAX_LANES, MAX_WORKGROUP
from vyre.domain.device import DeviceProfile
from vyre.domain.dispatch import TimingQuality
from vyre.domain.errors import BackendUnavailable

SYSTEMS: Final = ("linux", "darwin")
SUBGROUP: Final = 32
NO_COMPILER: Final = 'none, so that only stored code runs; `pip install "vyre[cpu]"` installs one'


def profile_of(features: CpuFeatures, options: CpuOptions, system: str = sys.platform) -> DeviceProfile:
    """Returns the profile of a processor.  Raises ``BackendUnavailable`` for one that no code can be made for."""
    if features.arch not in (X86_64, AARCH64) or system not in SYSTEMS:
        raise BackendUnavailable(
            f"backend `{CPU}` has no code for {features.arch} on {system}",
            fix="ask for `reference`; x86-64 and AArch64 are supported, on Linux and macOS.",
        )
    return DeviceProfile(
        backend=CPU,
        supports_subgroup_ops=True,
        supports_specialization_constants=True,
        supports_f16=True,
        supports_bf16=True,
        supports_trap_propagation=True,
        supports_grid_sync=True,
        has_mul_high=True,
        has_subgroup_shuffle=True,
        has_shared_memory=True,
        max_native_int_width=64,
        max_workgroup_size=MAX_WORKGROUP,
        max_invocations_per_workgroup=MAX_LANES,
        max_grid_size=MAX_GRID,
        subgroup_size=SUBGROUP,
        compute_units=options.threads or default_threads(options.affinity),
        timing_quality=TimingQuality.HOST_ENQUEUE_WAIT,
    )


def facts_of(options: CpuOptions) -> dict[str, str]:
    """Returns what ``vyre doctor`` shows about the processor: its instruction sets, the threads and the compiler."""
    features = host()
    version = llvm_version()
    return {
        "processor": features.arch,
        "instruction sets": ", ".join(features.features) or "none beyond the base",
        "vectors": f"{features.vector_bits} bits",
        "threads": str(options.threads or default_threads(options.affinity)),
        "CPUs": cpu_text(usable_cpus() if options.affinity is None else options.affinity),
        "compiler": version or NO_COMPILER,
    }
