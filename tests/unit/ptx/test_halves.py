"""Arithmetic of f16 and bf16 that is written as their own instructions, and what keeps f32."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pytest

import vyre
from support.cuda.ptxas import assemble, joined
from support.sass import listings
from vyre.adapters.cuda.code_tools import Assembler, assemblers, find_tools
from vyre.adapters.cuda.decisions.ptx_target import BASE_VERSIONS
from vyre.adapters.cuda.ptx.emit import emit, sites
from vyre.adapters.cuda.ptx.options import EmitOptions
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import bf16, f16
from vyre.testing import cuda_machine

ARITHMETIC: Final = re.compile(
    r"^(?:@!?%p\d+ )?((?:add|sub|mul|div|sqrt|fma|cvt|setp\.nan)\S*f(?:16|32)\S*)", re.MULTILINE
)
FIRST_WITH: Final = {"f16": min(BASE_VERSIONS), "bf16": 90}


def program_of(element: str, *lines: str) -> Program:
    buffers = "".join(f"buffer {name} @{k} read {element}[runtime]\n" for k, name in enumerate("ab"))
    buffers += f"buffer c @2 write {element}[runtime] like a\nbuffer d @3 write u32[runtime] like a\n"
    return Program.from_text("\n".join(("workgroup_size 64, 1, 1", buffers, "body {", "let i = gid.x", *lines, "}")))


def floats_of(element: str, *lines: str, target: int = 90) -> list[str]:
    """The instructions on floats of a kernel, in order."""
    text = emit(program_of(element, *lines), EmitOptions(target=target)).ptx
    return ARITHMETIC.findall(text.replace("\t", ""))


@pytest.mark.parametrize("element", FIRST_WITH)
@pytest.mark.parametrize(("sign", "name"), [("+", "add"), ("-", "sub"), ("*", "mul")])
def test_stored_packed_and_narrowed_results_are_computed_in_their_type(element: str, sign: str, name: str) -> None:
    operation, test = f"{name}.rn.{element}", f"setp.nan.{element}"
    lets = f"let s = a[i] {sign} b[i]"
    assert floats_of(element, lets, "c[i] = s") == [operation, test]
    assert floats_of(element, lets, f"d[i] = pack<{element}>(s)") == [operation, test]
    chain = f"c[i] = narrow<{element}>(s) {sign} 0.5f"
    assert floats_of(element, lets, chain) == [operation, operation, test]
    unpacked = f"c[i] = unpack<{element}>(i) {sign} narrow<{element}>(cast<f32>(i))"
    assert floats_of(element, unpacked)[-2:] == [operation, test]


@pytest.mark.parametrize("element", FIRST_WITH)
def test_an_older_target_and_an_operator_without_an_instruction_keep_f32(element: str) -> None:
    if element == "bf16":
        assert floats_of(element, "c[i] = a[i] + b[i]", target=89)[0] == "add.rn.f32"
        assert floats_of(element, "d[i] = pack<f16>(a[i] + b[i])")[0] == "add.rn.f32", "it is no sum of f16"
    for value in ("a[i] / b[i]", "sqrt(a[i])", "fma(a[i], b[i], 1.0f)", "a[i] + 0.1f", "a[i] * b[i] + a[i]"):
        found = floats_of(element, f"c[i] = {value}")
        assert not [name for name in found if name.startswith(("add", "sub", "mul")) and not name.endswith(".f32")]


def test_what_is_read_as_f32_stays() -> None:
    found = floats_of("f16", "let s = a[i] + b[i]", "c[i] = s", "d[i] = bitcast<u32>(s)")
    assert [name for name in found if name.startswith("add")] == ["add.rn.f32", "add.rn.f16"]
    dot = ("let sum = 0.0f", "for k in 0u .. 4u { sum := sum + a[k] * b[k] }", "d[i] = bitcast<u32>(sum)")
    assert {name for name in floats_of("f16", *dot) if name.endswith("f16") and "cvt" not in name} == set()


def test_lines_keep_their_places_where_others_are_dropped() -> None:
    """Each access belongs to the site of its buffer, though lines before it are gone."""
    program = program_of("f16", "let s = a[i] + b[i]", "c[i] = s", "d[i] = pack<f16>(narrow<f16>(s) * a[i + 1u])")
    (found,) = sites(program).values()
    accesses = [(k, line) for k, line in enumerate(emit(program).ptx.splitlines(), 1) if ".global." in line]
    told = [(found.at(k).buffer, "st." in line) for k, line in accesses if "cvta" not in line]
    assert told == [("a", False), ("b", False), ("c", True), ("a", False), ("d", True)]


@pytest.mark.parametrize("element", FIRST_WITH)
def test_a_word_that_is_assigned_later_does_not_change_a_sum_of_what_it_held(element: str) -> None:
    body = (
        "let word = pack<u16>(i * 7u) + 0x3c00u",
        f"let old = unpack<{element}>(word)",
        "let s = old + a[i]",
        "word := 0u",
        "c[i] = s",
        "d[i] = word",
    )
    program, patterns = program_of(element, *body), np.arange(0x3C00, 0x3C40, dtype=np.uint16)
    given = {name: patterns.view(np.float16) if element == "f16" else patterns for name in "ab"}
    config = vyre.DispatchConfig(extent=(64, 1, 1))
    with cuda_machine("h200").open() as device, vyre.open("reference") as reference:
        found, wanted = (session.dispatch(program, given, config) for session in (device, reference))
    assert np.asarray(found["c"]).tobytes() == np.asarray(wanted["c"]).tobytes()


@pytest.mark.parametrize("assembler", assemblers(), ids=lambda assembler: assembler.build)
@pytest.mark.skipif(not find_tools("nvdisasm"), reason="no nvdisasm: install the dependency group `ptxas`")
def test_the_assembler_has_one_instruction_for_each_and_contracts_none(assembler: Assembler) -> None:
    for target in (75, 90):
        modules = []
        for element in (element for element, first in FIRST_WITH.items() if target >= first):
            lets = (f"let p = narrow<{element}>(a[i] * b[i])", f"let s = narrow<{element}>(p + a[i])")
            modules.append(emit(program_of(element, *lets, "c[i] = s - 0.5f"), EmitOptions(target=target)))
        cubin, _ = assemble(assembler, joined(modules), target)
        codes = listings(find_tools("nvdisasm")[0], cubin).values()
        found = [re.findall(r"\b(H(?:ADD2|MUL2|FMA2)\S*|F(?:ADD|MUL|FMA)\S*)", code) for code in codes]
        wanted = [[f"{name}{suffix}" for name in ("HMUL2", "HADD2", "HADD2")] for suffix in ("", ".BF16_V2")]
        assert sorted(found) == sorted(wanted[: len(modules)])


def test_profiles_claim_what_the_targets_compute() -> None:
    claims = {}
    for name in ("t4", "sm_86", "h200", "sm_120"):
        profile = cuda_machine(name).backend.profile
        claims[name] = (profile.supports_f16, profile.supports_bf16, {f16, bf16} <= profile.element_types)
    assert claims == {
        "t4": (True, False, True),
        "sm_86": (True, False, True),
        "h200": (True, True, True),
        "sm_120": (True, True, True),
    }
