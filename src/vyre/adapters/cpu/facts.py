"""What ``vyre doctor`` shows about the CPU backend; nothing is compiled, and llvmlite is not imported."""

from __future__ import annotations

from collections.abc import Mapping

from vyre.adapters.cpu.native.compilation import llvm_version
from vyre.adapters.cpu.native.features import host
from vyre.adapters.cpu.pool.options import cpu_text, default_threads, options_from, usable_cpus
from vyre.adapters.system import ProcessEnvironment

_LANE_BITS = 32


def cpu_facts() -> Mapping[str, str]:
    """Returns texts about processor, vectors, threads and compiler by topic.

    Raises ``BackendUnavailable`` for a variable of the environment with an invalid value.
    """
    features, options = host(), options_from(ProcessEnvironment())
    cpus = usable_cpus() if options.affinity is None else options.affinity
    threads = default_threads(options.affinity) if options.threads is None else options.threads
    version = llvm_version()
    return {
        "processor": " ".join((features.arch, *features.features)),
        "lanes": f"{features.vector_bits // _LANE_BITS} of 32 bits in a vector of {features.vector_bits} bits",
        "threads": f"{threads}, on CPUs {cpu_text(cpus)}",
        "compiler": version or "none, so that only stored kernels run: pip install 'vyre[cpu]' adds it",
    }
