"""The levels of processors that code in bundles is compiled for: the sets of instructions that it may use.

Each level contains those before it.  They are what compilers call ``x86-64``, ``x86-64-v3`` and ``x86-64-v4``, without
what the machine code of kernels has no use for.
"""

from __future__ import annotations

from typing import Final

from vyre.adapters.cpu.native.features import AARCH64, X86_64, CpuFeatures, parse_features
from vyre.ports.bundles import AotTargetId

_AVX2: Final = "sse3+ssse3+sse4.1+sse4.2+popcnt+avx+avx2+fma+f16c+bmi+bmi2+lzcnt"
_AVX512: Final = f"{_AVX2}+avx512f+avx512bw+avx512cd+avx512dq+avx512vl"

LEVELS: Final[dict[AotTargetId, CpuFeatures]] = {
    AotTargetId("cpu-x86_64"): CpuFeatures(X86_64, (), 128),
    AotTargetId("cpu-x86_64-avx2"): parse_features(f"{X86_64}+{_AVX2}"),
    AotTargetId("cpu-x86_64-avx512"): parse_features(f"{X86_64}+{_AVX512}"),
    AotTargetId("cpu-aarch64"): parse_features(f"{AARCH64}+fp-armv8+neon"),
}
"""The features of each target."""


def levels_of(arch: str) -> tuple[AotTargetId, ...]:
    """Returns the targets of an architecture, the lowest first; none for one that vyre compiles nothing for."""
    return tuple(target for target, features in LEVELS.items() if features.arch == arch)
