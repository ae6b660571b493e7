"""The instruction sets of this machine, read once from the processor, without a compiler.

On x86-64 the instruction CPUID says what the processor has, and the register XCR0 says which registers the operating
system saves when it switches threads: a vector extension counts only if both agree.  Both are read by a few bytes of
machine code.  On AArch64 the Linux kernel hands every process a word of bits.  Names are LLVM's.

The name of the processor is not used: virtual machines report names whose instruction sets they lack, or the
reverse.  Code is compiled for the oldest processor of the architecture plus exactly these features.  The name of the
maker tells only how fast gathers are, which no bit does.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from vyre.adapters.cpu.native.memory import MAPPABLE, Pages, Protection
from vyre.domain.errors import BackendError

X86_64: Final = "x86_64"
AARCH64: Final = "aarch64"
_ARCHITECTURES: Final = {"x86_64": X86_64, "amd64": X86_64, "aarch64": AARCH64, "arm64": AARCH64}


class CpuFeatures(NamedTuple):
    """The instruction sets and vector registers that machine code may use.

    ``arch`` is ``x86_64``, ``aarch64`` or the machine's own name; ``features`` are LLVM's names, sorted;
    ``vector_bits`` is the width of the widest vector register, in bits: 128, 256 or 512.  ``slow_gathers`` tells that
    the processor reads the elements of a gather by a microprogram, which takes longer than a load for each of them: the
    same code runs, but other code may be faster.
    """

    arch: str
    features: tuple[str, ...]
    vector_bits: int
    slow_gathers: bool = False

    @property
    def text(self) -> str:
        """Returns the architecture and all features as one text, a part of keys: it is the same in every process."""
        return "+".join((self.arch, *self.features))

    @property
    def is_predicated(self) -> bool:
        """Whether there are scatters, and masks for elements of every size: those of the AVX-512 instruction sets."""
        return self.vector_bits >= 512

    @property
    def computes_f16(self) -> bool:
        """Whether there are the operators of f16 itself: those of AVX512-FP16."""
        return "avx512fp16" in self.features

    def lacks(self, needed: CpuFeatures) -> tuple[str, ...]:
        """Returns what code compiled for ``needed`` may use that a processor of these features does not have.

        It is empty if the code runs; it names the architecture alone if that differs.
        """
        if needed.arch != self.arch:
            return (needed.arch,)
        return tuple(sorted(set(needed.features) - set(self.features)))

    def at_most(self, vector_bits: int) -> CpuFeatures:
        """Returns these features without those that work on vectors wider than ``vector_bits`` bits."""
        kept = (name for name in self.features if _FEATURE_BITS.get(name, 128) <= vector_bits)
        return _described(self.arch, kept)._replace(slow_gathers=self.slow_gathers)


def parse_features(text: str) -> CpuFeatures:
    """Returns the features of which ``text`` is the ``text``."""
    arch, *names = text.split("+")
    return _described(arch, names)


def _described(arch: str, names: Iterable[str]) -> CpuFeatures:
    features = tuple(sorted(names))
    widest = 128
    if arch == X86_64:
        widest = 512 if _FULL_512.issubset(features) else 256 if "avx2" in features else 128
    return CpuFeatures(arch, features, widest)


@cache
def host() -> CpuFeatures:
    """Returns what this processor and this operating system support.  The first call takes well below a millisecond."""
    arch = _architecture()
    if arch == X86_64:
        return _described(arch, x86_features())._replace(slow_gathers=x86_maker() in _SLOW_GATHERS)
    if arch == AARCH64:
        return _described(arch, _aarch64_features())
    return CpuFeatures(arch, (), 128)


def _architecture() -> str:
    system = os.uname().machine if hasattr(os, "uname") else os.environ.get("PROCESSOR_ARCHITECTURE", "unknown")
    if sys.maxsize < 1 << 32:  # a process of 32 bits, whatever the system can run
        return f"{system.lower()}-32"
    return _ARCHITECTURES.get(system.lower(), system.lower())


# ---------------------------------------------------------------- x86-64
class _Leaf(NamedTuple):
    """The place of a feature in the answers of CPUID: leaf, register (0 EAX, 1 EBX, 2 ECX, 3 EDX) and bit."""

    leaf: int
    register: int
    bit: int
    saved: int = 0


_SSE: Final = 0x2
_AVX: Final = 0x6
_AVX512: Final = 0xE6
"""Bits of XCR0: the operating system saves XMM, YMM, and the mask and ZMM registers."""

_X86: Final[Mapping[str, _Leaf]] = {
    "sse3": _Leaf(1, 2, 0),
    "pclmul": _Leaf(1, 2, 1),
    "ssse3": _Leaf(1, 2, 9),
    "fma": _Leaf(1, 2, 12, _AVX),
    "cx16": _Leaf(1, 2, 13),
    "sse4.1": _Leaf(1, 2, 19),
    "sse4.2": _Leaf(1, 2, 20),
    "movbe": _Leaf(1, 2, 22),
    "popcnt": _Leaf(1, 2, 23),
    "avx": _Leaf(1, 2, 28, _AVX),
    "f16c": _Leaf(1, 2, 29, _AVX),
    "bmi": _Leaf(7, 1, 3),
    "avx2": _Leaf(7, 1, 5, _AVX),
    "bmi2": _Leaf(7, 1, 8),
    "avx512f": _Leaf(7, 1, 16, _AVX512),
    "avx512dq": _Leaf(7, 1, 17, _AVX512),
    "avx512ifma": _Leaf(7, 1, 21, _AVX512),
    "avx512cd": _Leaf(7, 1, 28, _AVX512),
    "avx512bw": _Leaf(7, 1, 30, _AVX512),
    "avx512vl": _Leaf(7, 1, 31, _AVX512),
    "avx512vbmi": _Leaf(7, 2, 1, _AVX512),
    "avx512vbmi2": _Leaf(7, 2, 6, _AVX512),
    "gfni": _Leaf(7, 2, 8),
    "avx512vnni": _Leaf(7, 2, 11, _AVX512),
    "avx512bitalg": _Leaf(7, 2, 12, _AVX512),
    "avx512fp16": _Leaf(7, 3, 23, _AVX512),
    "avx512vpopcntdq": _Leaf(7, 2, 14, _AVX512),
    "sahf": _Leaf(0x80000001, 2, 0),
    "lzcnt": _Leaf(0x80000001, 2, 5),
}
"""The features that help compiled kernels.  AVX512-BF16 and AVX10.2 flush subnormal bf16 numbers and are left out."""

_SLOW_GATHERS: Final = frozenset(("AuthenticAMD", "HygonGenuine"))
"""The makers of processors with AVX2 of which all generations so far, Zen 1 to 5, run gathers as microprograms."""

_NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "fma": ("avx",),
    "f16c": ("avx",),
    "avx2": ("avx",),
    "avx512f": ("avx2", "fma", "f16c"),
    "avx512fp16": ("avx512bw", "avx512dq", "avx512vl"),
}
_FULL_512: Final = frozenset(("avx512f", "avx512bw", "avx512dq", "avx512vl"))
_FEATURE_BITS: Final[Mapping[str, int]] = {
    "avx": 256,
    "avx2": 256,
    "fma": 256,
    "f16c": 256,
    **{name: 512 for name in _X86 if name.startswith("avx512")},
}

_CODE: Final = bytes.fromhex(
    "53"  # push rbx, which the caller wants back
    "4989f8"  # mov r8, rdi: sixteen bytes for the answer
    "89f0"  # mov eax, esi: the leaf
    "89d1"  # mov ecx, edx: the part of the leaf
    "0fa2"  # cpuid
    "418900"  # mov [r8], eax
    "41895804"  # mov [r8 + 4], ebx
    "41894808"  # mov [r8 + 8], ecx
    "4189500c"  # mov [r8 + 12], edx
    "5bc3"  # pop rbx; ret
)
_XCR0_AT: Final = 48
_XCR0_CODE: Final = bytes.fromhex(
    "31c9"  # xor ecx, ecx
    "0f01d0"  # xgetbv: the low half to eax
    "c3"  # ret
)
_OSXSAVE: Final = 27
"""The bit of ECX of leaf 1 which says that XGETBV may be executed."""

CpuId = Callable[[int, int], tuple[int, int, int, int]]
"""Answers CPUID: (leaf, part of the leaf) to (EAX, EBX, ECX, EDX)."""


Answer = TypeVar("Answer")


def x86_features() -> tuple[str, ...]:
    """Returns the features of this x86-64 processor, from itself, or from Linux if no code may be made here."""
    return _asked(decode_cpuid, partial(listed_by_linux, CPUINFO))


def x86_maker() -> str:
    """Returns the name of the maker of this x86-64 processor, such as ``AuthenticAMD``; empty if it is not known."""
    return _asked(decode_maker, partial(maker_by_linux, CPUINFO))


def _asked(decode: Callable[[CpuId, Callable[[], int]], Answer], otherwise: Callable[[], Answer]) -> Answer:
    """Returns what ``decode`` finds in the answers of CPUID and XCR0, or ``otherwise`` if no code may be made here."""
    if MAPPABLE:
        try:
            return _asked_from_the_processor(decode)
        except (BackendError, OSError):  # no executable pages, or a process without the C library's symbols
            pass
    return otherwise()


def _asked_from_the_processor(decode: Callable[[CpuId, Callable[[], int]], Answer]) -> Answer:
    pages = Pages(1)
    try:
        pages.write(0, _CODE)
        pages.write(_XCR0_AT, _XCR0_CODE)
        pages.protect(0, pages.nbytes, Protection.EXECUTE)
        unsigned = ctypes.c_uint32
        ask = ctypes.CFUNCTYPE(None, ctypes.c_void_p, unsigned, unsigned)(pages.address)
        saved = ctypes.CFUNCTYPE(unsigned)(pages.address + _XCR0_AT)
        answer = (unsigned * 4)()

        def cpuid(leaf: int, part: int) -> tuple[int, int, int, int]:
            ask(ctypes.addressof(answer), leaf, part)
            eax, ebx, ecx, edx = answer
            return eax, ebx, ecx, edx

        return decode(cpuid, saved)
    finally:
        pages.close()


def decode_cpuid(cpuid: CpuId, xcr0: Callable[[], int]) -> tuple[str, ...]:
    """Returns the features that CPUID and XCR0 report, sorted.  ``xcr0`` is only called where CPUID allows it."""
    highest = {0: cpuid(0, 0)[0], 0x80000000: cpuid(0x80000000, 0)[0]}
    leaves = {
        leaf: cpuid(leaf, 0)
        for leaf in sorted({place.leaf for place in _X86.values()})
        if leaf <= highest[leaf & 0x80000000]
    }
    saved = _SSE
    if leaves[1][2] >> _OSXSAVE & 1:
        saved = xcr0()
    features = {
        name
        for name, place in _X86.items()
        if place.leaf in leaves
        and leaves[place.leaf][place.register] >> place.bit & 1
        and saved & place.saved == place.saved
    }
    return _consistent(features)


def decode_maker(cpuid: CpuId, _: Callable[[], int]) -> str:
    """Returns the name of the maker: twelve letters in EBX, EDX and ECX of leaf 0."""
    registers = cpuid(0, 0)
    return struct.pack("<3I", registers[1], registers[3], registers[2]).decode("latin-1")


def _consistent(features: set[str]) -> tuple[str, ...]:
    """Returns ``features`` without features that lack one on which LLVM builds them, as in some virtual machines."""
    for name, needs in _NEEDS.items():  # those that are needed come first
        if not features.issuperset(needs):
            features.discard(name)
    if "avx512f" not in features:
        features = {name for name in features if not name.startswith("avx512")}
    return tuple(sorted(features))


_KERNEL_NAMES: Final[Mapping[str, str]] = {
    "sse3": "pni",
    "pclmul": "pclmulqdq",
    "sse4.1": "sse4_1",
    "sse4.2": "sse4_2",
    "bmi": "bmi1",
    "lzcnt": "abm",
    "sahf": "lahf_lm",
    "avx512vbmi2": "avx512_vbmi2",
    "avx512vnni": "avx512_vnni",
    "avx512bitalg": "avx512_bitalg",
    "avx512fp16": "avx512_fp16",
    "avx512vpopcntdq": "avx512_vpopcntdq",
}
"""Linux's names where they differ from LLVM's.  Linux lists what it saves only."""


CPUINFO: Final = Path("/proc/cpuinfo")
"""Linux's description of the processors."""


def listed_by_linux(path: Path) -> tuple[str, ...]:
    """Returns the features in a file of the form of ``/proc/cpuinfo``, sorted; none if there is no such file."""
    words = set(_line(path, "flags").split())
    return _consistent({name for name in _X86 if _KERNEL_NAMES.get(name, name) in words})


def maker_by_linux(path: Path) -> str:
    """Returns the maker in a file of the form of ``/proc/cpuinfo``; empty if there is no such file."""
    return _line(path, "vendor_id").strip()


def _line(path: Path, name: str) -> str:
    """Returns what such a file says first under a name; empty if it says nothing."""
    try:
        with path.open(encoding="ascii", errors="replace") as lines:
            return next((line for line in lines if line.startswith(name)), "").partition(":")[2]
    except OSError:
        return ""


# ---------------------------------------------------------------- AArch64
_AT_HWCAP: Final = 16
_AARCH64: Final[Mapping[str, tuple[int, ...]]] = {
    "fp-armv8": (0,),
    "neon": (1,),
    "crc": (7,),
    "lse": (8,),
    "rdm": (12,),
    "rcpc": (15,),
    "dotprod": (20,),
}
"""Bits of the word that Linux hands a process.  Scalable vectors are not used: an emitted vector has a fixed width."""


def _aarch64_features() -> tuple[str, ...]:
    if sys.platform == "darwin":  # every processor of Apple's that runs Python has them
        return tuple(sorted(_AARCH64))
    if sys.platform != "linux":
        return ("fp-armv8", "neon")
    getauxval = ctypes.CDLL(None).getauxval
    getauxval.restype, getauxval.argtypes = ctypes.c_ulong, (ctypes.c_ulong,)
    return decode_hwcap(getauxval(_AT_HWCAP))


def decode_hwcap(bits: int) -> tuple[str, ...]:
    """Returns the features that AArch64 Linux's word of hardware capabilities reports, sorted."""
    return tuple(sorted(name for name, places in _AARCH64.items() if all(bits >> place & 1 for place in places)))
