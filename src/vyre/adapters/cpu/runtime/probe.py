"""The profile of the processor, which is known without a thread, a compiler or a kernel."""

from __future__ import annotations

import sys
from typing import Final

from vyre.adapters.cpu.ids import CPU
from vyre.adapters.cpu.llvm.options import SUBGROUP
from vyre.adapters.cpu.native.compilation import llvm_version, loaded_version
from vyre.adapters.cpu.native.features import AARCH64, X86_64, CpuFeatures, host
from vyre.adapters.cpu.pool.options import AFFINITY, THREADS, cpu_quota, cpu_text, default_threads, usable_cpus
from vyre.adapters.cpu.runtime.options import MAX_GRID, MAX_LANES, MAX_WORKGROUP, CpuOptions
from vyre.domain.device import DeviceProfile
from vyre.domain.dispatch import TimingQuality
from vyre.domain.errors import BackendUnavailable
from vyre.domain.ir.types import ScalarType
from vyre.ports.support import Environment

SYSTEMS: Final = ("linux", "darwin")
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
        element_types=frozenset(ScalarType),
        supports_f16=features.computes_f16,
        supports_trap_propagation=True,
        supports_grid_sync=True,
        allows_host_grid_sync_split=True,
        supports_async_compute=True,
        supports_speculation=True,
        supports_persistent_threads=True,
        has_subgroup_shuffle=True,
        has_shared_memory=True,
        max_native_int_width=64,
        max_workgroup_size=MAX_WORKGROUP,
        max_invocations_per_workgroup=MAX_LANES,
        max_grid_size=MAX_GRID,
        subgroup_size=SUBGROUP,
        compute_units=options.threads or default_threads(options.affinity),
        timing_quality=TimingQuality.HOST_ONLY,
    )


def facts_of(options: CpuOptions, environment: Environment) -> dict[str, str]:
    """Returns what ``vyre doctor`` shows about the processor: instruction sets, lanes, threads and the compiler.

    LLVM is imported, which shows whether it works.  ``environment`` is that from which ``options`` were read.
    """
    from vyre.adapters.cpu.decisions.vector_width import VectorInputs, vector_width
    from vyre.policies.journal import decide

    features = host()
    width = decide(None, vector_width, VectorInputs(features.vector_bits, 1 << 10))
    return {
        "processor": features.arch,
        "instruction sets": ", ".join(features.features) or "none beyond the base",
        "vectors": f"{features.vector_bits} bits",
        "lanes": f"{width.lanes} in a vector: {width.why}; some programs take {SUBGROUP}",
        "threads": _threads(options, environment),
        "CPUs": _cpus(options, environment),
        "compiler": _compiler(),
        "compile server": _server(),
    }


def _threads(options: CpuOptions, environment: Environment) -> str:
    if options.threads is not None:
        return f"{options.threads}, as {_source(environment, THREADS)} says"
    cpus = len(usable_cpus() if options.affinity is None else options.affinity)
    quota, threads = cpu_quota(), default_threads(options.affinity)
    named = "usable CPUs" if options.affinity is None else f"CPUs in {_source(environment, AFFINITY)}"
    if threads == cpus:
        limit = "; no quota of control groups is set" if quota is None else f"; the quota of control groups is {quota}"
        return f"{threads}, the number of {named}{limit}"
    limit = "the quota of control groups" if threads == quota else "the most that are supported"
    return f"{threads}, {limit}; the number of {named} is {cpus}"


def _cpus(options: CpuOptions, environment: Environment) -> str:
    if options.affinity is None:
        return f"{cpu_text(usable_cpus())}, those that the process may use"
    return f"{cpu_text(options.affinity)}, as {_source(environment, AFFINITY)} says"


def _source(environment: Environment, variable: str) -> str:
    return variable if (environment.get(variable) or "").strip() else "the option"


def _compiler() -> str:
    version = llvm_version()
    if version is None:
        return NO_COMPILER
    try:
        return f"LLVM {loaded_version()} of {version}"
    except BackendUnavailable as error:
        return f"{version}: {error.message}. Fix: {error.fix}"


def _server() -> str:
    from vyre.adapters.cpu.native.server import shared_server  # which opening a session need not import

    number = shared_server().process_id
    if number is None:
        return "none runs; it starts when a kernel has run so long that full effort pays"
    return f"process {number}"
