"""Operators of f16 as those of AVX512-FP16: what they compute, and that LLVM has one instruction for each.

No processor of the tests need have them.  What they compute is judged where LLVM puts other instructions in their
place; which instructions they are, by the assembly for a processor that has them.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="machine code is made by the optional package llvmlite")

from support.cpu.agreement import case, disagreements
from support.cpu.kernels import Variant
from support.programs import Case
from vyre.adapters.cpu.llvm.emit import emit
from vyre.adapters.cpu.llvm.options import EmitOptions
from vyre.adapters.cpu.native.compilation import Effort, assembly
from vyre.adapters.cpu.native.features import parse_features
from vyre.adapters.cpu.runtime.options import CpuOptions
from vyre.adapters.cpu.runtime.probe import profile_of
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import bf16, f16

SAPPHIRE: Final = parse_features(
    "x86_64+avx+avx2+avx512bw+avx512cd+avx512dq+avx512f+avx512fp16+avx512vl+bmi+bmi2+f16c+fma+lzcnt+popcnt"
)
HARD: Final = (
    *(0x0000, 0x0001, 0x0002, 0x03FF, 0x0400, 0x0401, 0x1400, 0x3555, 0x37FF, 0x3800, 0x3BFF, 0x3C00, 0x3C01, 0x4248),
    *(0x57FF, 0x7800, 0x7BFF, 0x7C00, 0x7C01, 0x7E00, 0x7FFF, 0x8000, 0x8001, 0x83FF, 0x8400, 0xB555, 0xBC00, 0xFBFF),
    *(0xFC00, 0xFE01, 0x0D6E, 0xC1F3),
)
OPERATORS: Final = {"fadd": "a + b", "fsub": "a - b", "fmul": "a * b", "fdiv": "a / b", "sqrt": "sqrt(a)"}
BUFFERS: Final = """
buffer x @0 read f16[runtime]
buffer z @1 read f16[runtime]
buffer y @2 read_write f16[runtime] output like x
buffer w @3 read_write u32[runtime] output like x
"""
VARIANTS: Final = (
    Variant(1, Effort.FULL, halves=True),
    Variant(8, Effort.FULL, halves=True),
    Variant(32, halves=True),
)


def text_of(value: str, *, more: str = "") -> str:
    lets = "let a = x[gid.x]\nlet b = z[gid.x]\n"
    return f"workgroup_size 64, 1, 1\n{BUFFERS}\nbody {{\n{lets}let s = {value}\ny[gid.x] = s\n{more}\n}}"


def case_of(text: str) -> Case:
    patterns = np.array(HARD, np.uint16)
    pairs = np.repeat(patterns, len(HARD)), np.tile(patterns, len(HARD))
    return case(text, {"x": pairs[0].tobytes(), "z": pairs[1].tobytes()}, extent=(len(HARD) ** 2, 1, 1))


def test_operators_of_f16_give_what_narrowing_gives() -> None:
    """Also of literals, of one value for all lanes, of narrow results, and of sums that are no values of f16."""
    more = """
    let n = narrow<f16>(s)
    w[gid.x] = pack<f16>(n * x[1u]) ^ pack<f16>(narrow<f16>(n - 0.5f) / 1.1f) << 16u
    """
    cases = {name: case_of(text_of(value, more=more)) for name, value in OPERATORS.items()}
    cases["sums of sums"] = case_of(text_of("a + b + b", more="w[gid.x] = pack<f16>(sqrt(a * b))"))
    cases["unpacked"] = case_of(text_of("unpack<f16>(gid.x) * b", more="w[gid.x] = bitcast<u32>(narrow<f16>(s))"))
    assert disagreements(cases, VARIANTS) == []


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize(("lanes", "suffix"), [(32, "ph"), (1, "sh")])
def test_each_operator_is_one_instruction_of_avx512_fp16(operator: str, lanes: int, suffix: str) -> None:
    code = emit(Program.from_text(text_of(OPERATORS[operator])), EmitOptions(lanes=lanes, halves=True))
    found = assembly(code.text, SAPPHIRE, Effort.LIGHT, system="linux")
    instructions = re.findall(r"^\s+(v\w+)", found, re.MULTILINE)
    assert f"v{operator.removeprefix('f')}{suffix}" in instructions
    assert not [name for name in instructions if re.match(r"v(add|sub|mul|div|sqrt)[ps]s|vcvt", name)]


def test_a_processor_without_them_gets_none() -> None:
    text = emit(Program.from_text(text_of("a + b")), EmitOptions(lanes=8)).text
    assert "half" not in text
    assert "fadd <8 x half>" in emit(Program.from_text(text_of("a + b")), EmitOptions(lanes=8, halves=True)).text


def test_a_profile_claims_the_arithmetic_that_the_processor_has() -> None:
    profiles = [profile_of(features, CpuOptions(), "linux") for features in (SAPPHIRE, SAPPHIRE.at_most(256))]
    assert [(p.supports_f16, p.supports_bf16, {f16, bf16} <= p.element_types) for p in profiles] == [
        (True, False, True),
        (False, False, True),
    ]
