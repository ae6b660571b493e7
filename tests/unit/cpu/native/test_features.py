"""The processor's features are those that it and the operating system support, whichever way they are asked."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from support.limits import LIMIT_S
from vyre.adapters.cpu.native import features
from vyre.adapters.cpu.native.features import (
    CpuFeatures,
    decode_cpuid,
    decode_hwcap,
    decode_maker,
    host,
    listed_by_linux,
    maker_by_linux,
    parse_features,
)
from vyre.adapters.cpu.native.memory import Pages
from vyre.domain.errors import DispatchFailed

Leaves = Mapping[int, tuple[int, int, int, int]]

AVX512 = CpuFeatures("x86_64", ("avx", "avx2", "avx512bw", "avx512dq", "avx512f", "avx512vl", "f16c", "fma"), 512)


def skylake_server(*, ecx: int = 0, ebx: int = 0) -> Leaves:
    """CPUID of a processor with AVX-512, less the given bits of leaf 1's ECX and leaf 7's EBX."""
    sse_to_avx = 1 << 0 | 1 << 9 | 1 << 12 | 1 << 19 | 1 << 20 | 1 << 23 | 1 << 27 | 1 << 28 | 1 << 29
    second = 1 << 3 | 1 << 5 | 1 << 8 | 1 << 16 | 1 << 17 | 1 << 28 | 1 << 30 | 1 << 31
    return {
        0: (7, 0, 0, 0),
        1: (0, 0, sse_to_avx & ~ecx, 0),
        7: (0, second & ~ebx, 0, 0),
        0x80000000: (0x80000001, 0, 0, 0),
        0x80000001: (0, 0, 1 << 5, 0),
    }


def decoded(leaves: Leaves, xcr0: int | None) -> set[str]:
    def saved() -> int:
        assert xcr0 is not None, "XGETBV faults where CPUID does not announce it"
        return xcr0

    return set(decode_cpuid(lambda leaf, part: leaves[leaf] if part == 0 else (0, 0, 0, 0), saved))


def test_a_vector_extension_counts_where_its_registers_are_saved() -> None:
    everything = decoded(skylake_server(), 0xE7)
    assert {"sse4.2", "avx", "avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "avx512f", "avx512vl"} <= everything
    wide = {name for name in everything if name.startswith("avx512")}
    assert decoded(skylake_server(), 0x07) == everything - wide
    assert decoded(skylake_server(), 0x03) == everything - wide - {"avx", "avx2", "fma", "f16c"}


def test_xcr0_is_not_read_where_it_cannot_be() -> None:
    assert decoded(skylake_server(ecx=1 << 27), None) == decoded(skylake_server(), 0x03)


def test_a_feature_without_what_it_builds_on_does_not_count() -> None:
    no_avx = decoded(skylake_server(ecx=1 << 28), 0xE7)
    assert not {name for name in no_avx if name.startswith(("avx", "fma", "f16c"))}
    no_avx2 = decoded(skylake_server(ebx=1 << 5), 0xE7)
    assert "avx" in no_avx2
    assert not {name for name in no_avx2 if name.startswith("avx512")}


def test_f16_arithmetic_counts_with_vectors_of_every_width() -> None:
    leaves = {**skylake_server(), 7: (0, skylake_server()[7][1], 0, 1 << 23)}
    assert decoded(leaves, 0xE7) - decoded(skylake_server(), 0xE7) == {"avx512fp16"}
    assert "avx512fp16" not in decoded({**leaves, 7: (0, leaves[7][1] & ~(1 << 31), 0, 1 << 23)}, 0xE7)
    assert "avx512fp16" not in decoded(leaves, 0x07)


def test_an_old_processor_has_few_leaves() -> None:
    leaves: Leaves = {0: (1, 0, 0, 0), 1: (0, 0, 1, 0), 0x80000000: (0, 0, 0, 0)}
    assert decoded(leaves, None) == {"sse3"}


def test_the_kernels_word_is_decoded_on_aarch64() -> None:
    assert decode_hwcap(0b11) == ("fp-armv8", "neon")
    assert decode_hwcap(1 << 0 | 1 << 1 | 1 << 8 | 1 << 20 | 1 << 22) == ("dotprod", "fp-armv8", "lse", "neon")


def test_the_maker_is_twelve_letters_of_three_registers() -> None:
    letters = {0: (1, 0x68747541, 0x444D4163, 0x69746E65)}
    assert decode_maker(lambda leaf, _: letters[leaf], lambda: 0) == "AuthenticAMD"


@pytest.mark.parametrize(("maker", "slow"), [("AuthenticAMD", True), ("HygonGenuine", True), ("GenuineIntel", False)])
def test_gathers_are_slow_on_processors_of_some_makers(maker: str, slow: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "_architecture", lambda: "x86_64")
    monkeypatch.setattr(features, "x86_maker", lambda: maker)
    monkeypatch.setattr(features, "x86_features", lambda: AVX512.features)
    found = host.__wrapped__()
    assert (found.slow_gathers, found.at_most(256).slow_gathers) == (slow, slow)
    assert found.text == AVX512.text


@pytest.mark.skipif(host().arch != "x86_64" or sys.platform != "linux", reason="no list of x86-64 flags by Linux here")
def test_the_processor_and_linux_agree_on_the_maker() -> None:
    assert features.x86_maker() == maker_by_linux(Path("/proc/cpuinfo")) != ""


@pytest.mark.skipif(host().arch != "x86_64" or sys.platform != "linux", reason="no list of x86-64 flags by Linux here")
def test_the_processor_and_linux_agree() -> None:
    assert host().features == listed_by_linux(Path("/proc/cpuinfo"))


def test_this_machine_has_a_vector_width() -> None:
    found = host()
    assert found is host()
    assert found.vector_bits in (128, 256, 512)
    assert found.features == tuple(sorted(set(found.features)))
    assert parse_features(found.text) == found._replace(slow_gathers=False)


def test_without_executable_pages_linux_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_: object) -> None:
        raise DispatchFailed("no executable pages here")

    monkeypatch.setattr(Pages, "protect", refuse)
    monkeypatch.setattr(features, "CPUINFO", tmp_path / "cpuinfo")
    assert features.x86_features() == ()
    assert features.x86_maker() == ""
    (tmp_path / "cpuinfo").write_text(
        "processor\t: 0\nvendor_id\t: AuthenticAMD\nflags\t\t: fpu pni sse4_1 avx avx2 fma abm nonsense\n"
    )
    assert features.x86_features() == ("avx", "avx2", "fma", "lzcnt", "sse3", "sse4.1")
    assert features.x86_maker() == "AuthenticAMD"


@pytest.mark.parametrize(("bits", "left"), [(512, AVX512.features), (256, ("avx", "avx2", "f16c", "fma")), (128, ())])
def test_features_can_be_reduced_to_a_width(bits: int, left: tuple[str, ...]) -> None:
    assert AVX512.at_most(bits) == CpuFeatures("x86_64", left, bits)


def test_what_a_lesser_processor_lacks_is_named() -> None:
    lesser = AVX512.at_most(256)
    assert lesser.lacks(AVX512) == ("avx512bw", "avx512dq", "avx512f", "avx512vl")
    assert AVX512.lacks(lesser) == ()
    assert AVX512.lacks(CpuFeatures("aarch64", ("neon",), 128)) == ("aarch64",)


def test_an_unknown_architecture_has_no_features() -> None:
    assert parse_features("riscv64") == CpuFeatures("riscv64", (), 128)


def test_features_are_found_without_llvmlite() -> None:
    script = "import sys; from vyre.adapters.cpu.native.features import host; host(); print('llvmlite' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=LIMIT_S)
    assert done.stdout == "False\n", done.stderr
