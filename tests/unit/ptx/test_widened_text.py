"""The text that is written for narrow values, private memory, indices and loops of every type, and switches."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from vyre.adapters.cuda.ptx.emit import emit
from vyre.adapters.cuda.ptx.options import ALL_OFF, EmitOptions
from vyre.domain.ir.program import Program

HEADER = """program text
workgroup_size 64, 1, 1
buffer x @0 read u32[runtime]
buffer y @1 read_write u32[runtime]
"""


def body_of(body: str, buffers: Sequence[str] = (), **options: object) -> list[str]:
    """The opcodes of the kernel in order, with predicates left out; labels end with a colon."""
    return [line if line.endswith(":") else line.split()[0] for line in lines_of(body, buffers, **options)]


def lines_of(body: str, buffers: Sequence[str] = (), **options: object) -> list[str]:
    text = "\n".join((HEADER + "\n".join(buffers), "body {", "  let i = gid.x", body, "}", ""))
    ptx = emit(Program.from_text(text), EmitOptions(**options)).ptx  # type: ignore[arg-type]
    lines = [line.strip() for line in ptx[ptx.index("\n{") + 3 :].splitlines()]
    return [re.sub(r"^@!?%p\d+ ", "", line) for line in lines if line and not line.startswith((".reg", "}"))]


def between(opcodes: list[str], first: str, last: str) -> list[str]:
    start = opcodes.index(first) + 1
    return opcodes[start : opcodes.index(last, start)]


@pytest.mark.parametrize(
    ("value", "target", "expected"),
    [
        ("narrow<u8>(v)", 90, ["and.b32"]),
        ("narrow<u16>(v)", 90, ["and.b32"]),
        ("bitcast<u32>(narrow<i8>(bitcast<i32>(v)))", 90, ["bfe.s32"]),
        ("bitcast<u32>(narrow<i16>(bitcast<i32>(v)))", 90, ["bfe.s32"]),
        (
            "cast<u32>(narrow<f16>(cast<f32>(v)))",
            90,
            ["cvt.rn.f32.u32", "cvt.rn.f16.f32", "cvt.f32.f16", "cvt.rzi.u32.f32"],
        ),
        (
            "cast<u32>(narrow<bf16>(cast<f32>(v)))",
            80,
            ["cvt.rn.f32.u32", "cvt.rn.bf16x2.f32", "mov.b32", "cvt.rzi.u32.f32"],
        ),
        ("pack<i16>(bitcast<i32>(v))", 90, ["and.b32"]),
        ("pack<f16>(cast<f32>(v))", 75, ["cvt.rn.f32.u32", "cvt.rn.f16.f32", "cvt.u32.u16"]),
        ("pack<bf16>(cast<f32>(v))", 90, ["cvt.rn.f32.u32", "cvt.rn.bf16x2.f32"]),
        ("unpack<u16>(v)", 90, ["and.b32"]),
        ("cast<u32>(unpack<f16>(v))", 90, ["cvt.u16.u32", "cvt.f32.f16", "cvt.rzi.u32.f32"]),
        ("cast<u32>(unpack<bf16>(v))", 90, ["shl.b32", "mov.b32", "cvt.rzi.u32.f32"]),
        ("pack<bf16>(f)", 90, ["mov.b32", "cvt.rn.bf16x2.f32", "setp.nan.f32", "selp.b32"]),
        ("cast<u32>(round_even(f))", 90, ["mov.b32", "cvt.rni.f32.f32", "cvt.rzi.u32.f32"]),
    ],
)
def test_a_narrow_value_takes_one_or_two_instructions(value: str, target: int, expected: list[str]) -> None:
    """Those around it convert from and to u32; a number needs no test for NaN."""
    body = f"  let v = x[i]\n  let f = bitcast<f32>(v)\n  y[0u] = {value}"
    found = between(body_of(body, target=target, assembler=(13, 5)), "ld.global.b32", "setp.lt.u32")
    assert [op for op in found if op != "mov.b32"] == [op for op in expected if op != "mov.b32"]


def test_known_narrow_values_take_none() -> None:
    body = "  y[0u] = pack<f16>(1.1f) + unpack<u8>(0x1ffu) + wrap_cast<u32>(-1.5f)"
    found = body_of(body)
    assert "cvt.rn.f16.f32" not in found and "and.b32" not in found and "cvt.rzi.s64.f32" not in found


def test_a_private_buffer_is_an_array_that_is_zeroed_by_vectors() -> None:
    found = lines_of("  y[0u] = stack[x[i]]", ["buffer stack @- private u16[20]"])
    assert ".local .align 16 .b8 local0[48];" in found
    zeros = [line for line in found if line.startswith("st.local.v4.b32")]
    assert [line.split()[1] for line in zeros] == ["[local0+0],", "[local0+16],", "[local0+32],"]
    assert sum(line.startswith("ld.local.u16") for line in found) == 1


def test_a_long_private_buffer_is_zeroed_in_a_loop() -> None:
    found = lines_of("  y[0u] = stack[x[i]]", ["buffer stack @- private u32[1000]"])
    assert ".local .align 16 .b8 local0[4000];" in found
    assert sum(line.startswith("st.local.v4.b32") for line in found) == 4 + 2
    assert any(line.startswith("bra.uni") for line in found)


def test_a_private_buffer_that_is_never_read_is_not_zeroed() -> None:
    found = body_of("  stack[x[i]] = 1u", ["buffer stack @- private u32[8]"])
    assert "st.local.v4.b32" not in found and "st.local.b32" in found


FILLED = "  for k in 0u .. 8u {\n    stack[k] = x[k]\n  }\n  y[0u] = stack[x[i]]"


def test_a_private_buffer_whose_zeros_nobody_can_observe_is_not_zeroed() -> None:
    buffers = ["buffer stack @- private u32[8]"]
    assert "st.local.v4.b32" not in body_of(FILLED, buffers)
    assert "st.local.v4.b32" in body_of(FILLED, buffers, switches=ALL_OFF)
    assert "st.local.v4.b32" in body_of(FILLED.replace("8u {", "7u {"), buffers)


def test_private_elements_at_known_indices_are_registers() -> None:
    body = "  stack[1u] = x[i]\n  stack[3i] = x[i] + stack[1u64]\n  y[0u] = stack[3u] + stack[7u] + stack[1000u]"
    found = lines_of(body, ["buffer stack @- private u32[100]"])
    assert not [line for line in found if "local" in line]


def test_too_many_known_indices_go_to_local_memory() -> None:
    stores = "\n".join(f"  stack[{k}u] = x[{k}u]" for k in range(80))
    found = body_of(f"{stores}\n  y[0u] = stack[5u]", ["buffer stack @- private u32[100]"])
    assert found.count("st.local.v4.b32") == 20


def test_a_part_of_a_split_program_declares_only_the_private_buffers_that_it_accesses() -> None:
    text = (
        HEADER
        + "buffer stack @- private u32[8]\nbody {\n"
        + "  y[gid.x] = 1u\n  barrier(grid_sync)\n  y[gid.x] = stack[x[gid.x]]\n}\n"
    )
    ptx = emit(Program.from_text(text), EmitOptions(native_grid_sync=False)).ptx
    first, second = ptx.split(".visible")[1:]
    assert ".local" not in first and ".local" in second


@pytest.mark.parametrize(
    ("index", "compared"),
    [
        ("v", "setp.lt.u32"),
        ("bitcast<i32>(v)", "setp.lt.u32"),
        ("cast<u64>(v)", "setp.lt.u64"),
        ("cast<i64>(v)", "setp.lt.u64"),
    ],
)
@pytest.mark.parametrize("count", ["runtime", "100"])
def test_an_index_takes_one_comparison(index: str, compared: str, count: str) -> None:
    body = f"  let v = x[i]\n  z[{index}] = v"
    found = body_of(
        body,
        [
            f"buffer z @2 read_write u32[{count}] output"
            if count != "runtime"
            else "buffer z @2 read_write u32[runtime]"
        ],
    )
    tail = found[found.index("ld.global.b32") + 1 :]
    assert [op for op in tail if op.startswith("setp")] == [compared]


def test_an_i32_index_is_compared_with_what_an_i32_can_reach() -> None:
    found = lines_of("  y[bitcast<i32>(x[i])] = 1u")
    reach = next(line for line in found if line.startswith("selp.b32") and "0x80000000" in line)
    limit = reach.split()[1].rstrip(",")
    assert any(line.startswith("setp.lt.u32") and line.endswith(f"{limit};") for line in found)


def test_addresses_of_long_indices_have_64_bits() -> None:
    found = body_of("  y[cast<u64>(x[i])] = 1u")
    assert found.count("shl.b64") == 1 and "cvt.u32.u64" not in found


@pytest.mark.parametrize("index", ["-1i", "-1i64", "0x100000000u64", "-2147483648i"])
def test_an_index_that_no_buffer_has_is_left_out(index: str) -> None:
    assert not [op for op in body_of(f"  y[0u] = x[{index}]") if op.startswith("ld.global")]


@pytest.mark.parametrize("index", ["cast<i64>(-1i)", "cast<u64>(-1i)", "bitcast<i32>(0xfffffffeu)"])
def test_so_is_a_store_whose_converted_index_is_known(index: str) -> None:
    assert not [op for op in body_of(f"  y[{index}] = 1u") if op.startswith("st.global")]


@pytest.mark.parametrize("suffix", ["u", "i", "u64", "i64"])
def test_a_loop_over_any_type_has_one_branch_per_round(suffix: str) -> None:
    body = f"  for k in 0{suffix} .. 9{suffix} step 2{suffix} {{\n    y[k] = 1u\n  }}"
    found = body_of(body)
    bits = 64 if "64" in suffix else 32
    tail = found[-5:-1]
    assert (
        tail[0] == f"setp.gt.u{bits}"
        and tail[1] == f"add.u{bits}"
        and tail[2].startswith("bra")
        and tail[3].endswith(":")
    )


def test_a_loop_with_a_negative_step_counts_down() -> None:
    found = lines_of("  for k in bitcast<i32>(x[i]) .. 3i step -2i {\n    y[k] = 1u\n  }")
    assert any(line.startswith("setp.le.s32") for line in found)


@pytest.mark.parametrize(
    "bounds",
    ["3i .. 3i step 1i", "3i .. 4i step -1i", "5i64 .. 4i64 step 1i64", "-1i .. -2i step 1i", "7u64 .. 5u64 step 1u64"],
)
def test_a_loop_that_never_runs_is_left_out(bounds: str) -> None:
    found = body_of(f"  for k in {bounds} {{\n    y[i] = 1u\n  }}")
    assert not [op for op in found if op.startswith("st.global")]


def switch(labels: Sequence[str], selector: str = "x[i]", *, default: bool = False) -> str:
    arms = "\n".join(f"    case {label} {{\n      y[i] = {k}u\n    }}" for k, label in enumerate(labels))
    otherwise = "\n    else {\n      y[i] = 99u\n    }" if default else ""
    return f"  switch {selector} {{\n{arms}{otherwise}\n  }}"


def test_a_switch_evaluates_its_selector_once() -> None:
    found = body_of(switch(["1u", "2u", "700u"]))
    assert found.count("ld.global.b32") == 1 and found.count("setp.eq.u32") == 3


def test_labels_that_follow_each_other_are_tested_together() -> None:
    found = body_of(switch(["4u, 5u, 6u, 7u", "900u, 1000u"]))
    assert found.count("setp.le.u32") == 1 and found.count("setp.eq.u32") == 2 and found.count("or.pred") == 1


def test_dense_labels_make_a_table_with_the_arms_in_order() -> None:
    found = lines_of(switch([f"{k}u" for k in (3, 4, 9, 6, 7, 8)], default=True))
    (table,) = [line for line in found if ".branchtargets" in line]
    name, targets = table.split(": .branchtargets ")
    places = targets.rstrip(";").split(", ")
    assert f"{name};" in next(line for line in found if line.startswith("brx.idx"))
    assert len(places) == 7 and len(set(places)) == 7, "the one without an arm is the default"
    laid_out = [line[:-1] for line in found if line.endswith(":")]
    in_order = [places[label - 3] for label in (3, 4, 9, 6, 7, 8, 5)]
    assert [label for label in laid_out if label in places] == in_order


def test_arms_without_statements_have_no_code() -> None:
    body = (
        "  switch x[i] {\n"
        + "\n".join(f"    case {k}u {{\n    }}" for k in range(8))
        + "\n    case 8u {\n      y[i] = 1u\n    }\n  }"
    )
    found = body_of(body)
    assert found.count("st.global.b32") == 1 and sum(op == "bra.uni" for op in found) <= 1


def test_a_switch_that_does_nothing_is_left_out() -> None:
    assert not [op for op in body_of("  switch x[i] {\n    case 1u {\n    }\n  }") if op.startswith(("bra", "brx"))]


@pytest.mark.parametrize(("selector", "uniform"), [("wid.x", True), ("x[i]", False)])
@pytest.mark.parametrize("arms", [3, 20])
def test_what_a_subgroup_selects_together_is_a_uniform_branch(selector: str, uniform: bool, arms: int) -> None:
    found = body_of(switch([f"{k}u" for k in range(arms)], selector, default=True))
    branches = (
        [op for op in found if op.startswith("brx")] if arms == 20 else [op for op in found if op.startswith("bra")][:1]
    )
    assert [op.endswith(".uni") for op in branches] == [uniform]


def test_a_chain_of_any_length_is_written() -> None:
    links = 5000
    chain = "if x[i] == 0u {\n    y[i] = 0u\n  }" + "".join(
        f" else if x[i] == {k}u {{\n    y[i] = {k}u\n  }}" for k in range(1, links)
    )
    found = body_of(f"  {chain}")
    assert found.count("st.global.b32") == links
