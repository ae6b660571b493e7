"""Import of programs of vyre-driver, the Rust system: conversions made explicit, the rest refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from support.fuzzing.form_corpus import conformance_programs, oracle_programs
from vyre.domain.errors import MalformedJson, UnsupportedFeature
from vyre.domain.ir.bits import bits_value
from vyre.domain.ir.program import Access
from vyre.domain.ir.text import parse_program, print_program
from vyre.domain.ir.types import f32
from vyre.domain.ir.upstream import Imported, import_upstream
from vyre.domain.program_report import InvalidProgram

HEAD = """workgroup_size 1, 1, 1
buffer o @0 read_write u32[4]
buffer f @1 read_write f32[4]
buffer i @2 read_write i32[4]
buffer w @3 read_write u64[4]
buffer n @4 read_write u8[4]
buffer b @5 read_write bool[4]
"""
NAMED_TYPES = {"o": "u32", "f": "f32", "i": "i32", "w": "u64", "n": "u8", "b": "bool"}
NAMED_BUFFERS: list[dict[str, Any]] = [
    {
        "name": name,
        "binding": k,
        "access": "ReadWrite",
        "kind": "Global",
        "dtype": dtype,
        "count": 4,
        "is_output": False,
    }
    for k, (name, dtype) in enumerate(NAMED_TYPES.items())
]


def imported(*entry: object, buffers: list[dict[str, Any]] = NAMED_BUFFERS) -> Imported:
    return import_upstream({"workgroup_size": [1, 1, 1], "buffers": buffers, "entry": list(entry)})


ONE = ["u32", 1]
LOAD = {name: ["load", name, ONE] for name in NAMED_TYPES}
SUM64 = ["bin", "WrappingAdd", LOAD["w"], LOAD["w"]]


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        # conditions
        (["if", ONE, [], []], "if cast<bool>(1u) {\n  }"),
        (["if", LOAD["b"], [], []], "if b[1u] {\n  }"),
        (["if", ["f32", "3f800000"], [], []], "if 1.0f {\n  }"),
        (["store", "o", ONE, ["select", LOAD["f"], ONE, ONE]], "o[1u] = select(cast<bool>(f[1u]), 1u, 1u)"),
        (["store", "b", ONE, ["bin", "And", ONE, LOAD["b"]]], "b[1u] = cast<bool>(1u) and b[1u]"),
        (["store", "b", ONE, ["un", "LogicalNot", ONE]], "b[1u] = not(cast<bool>(1u))"),
        (["store", "o", ONE, ["sg_ballot", ONE]], "o[1u] = subgroup_ballot(cast<bool>(1u))"),
        # operators that are typed u32 there
        (["store", "o", ONE, ["bin", "Mod", LOAD["i"], LOAD["i"]]], "o[1u] = cast<u32>(i[1u] % i[1u])"),
        (["store", "o", ONE, ["bin", "AbsDiff", LOAD["i"], LOAD["i"]]], "o[1u] = cast<u32>(absdiff(i[1u], i[1u]))"),
        (["store", "o", ONE, ["bin", "WrappingSub", LOAD["i"], LOAD["i"]]], "o[1u] = cast<u32>(i[1u] - i[1u])"),
        (["store", "i", ONE, ["bin", "Shl", LOAD["i"], LOAD["i"]]], "i[1u] = i[1u] << i[1u]"),
        (["store", "i", ONE, ["bin", "SaturatingAdd", LOAD["i"], LOAD["i"]]], "i[1u] = sat_add(i[1u], i[1u])"),
        # ... and are cast or combined in the type they compute in
        (
            ["store", "f", ONE, ["cast", "f32", ["bin", "BitOr", LOAD["i"], LOAD["i"]]]],
            "f[1u] = cast<f32>(i[1u] | i[1u])",
        ),
        (["store", "w", ONE, ["cast", "u64", SUM64]], "w[1u] = cast<u64>(w[1u] + w[1u])"),
        (["store", "o", ONE, SUM64], "o[1u] = cast<u32>(w[1u] + w[1u])"),
        (
            [
                "store",
                "b",
                ONE,
                ["bin", "Lt", ["bin", "Mod", LOAD["i"], LOAD["i"]], ["bin", "Mod", LOAD["i"], LOAD["i"]]],
            ],
            "b[1u] = i[1u] % i[1u] < i[1u] % i[1u]",
        ),
        (
            ["store", "o", ONE, ["bin", "Add", ["bin", "BitAnd", LOAD["i"], LOAD["i"]], ONE]],
            "o[1u] = cast<u32>(i[1u] & i[1u]) + 1u",
        ),
        # what is read as u32 there
        (["store", "o", ONE, ["load", "o", LOAD["i"]]], "o[1u] = o[cast<u32>(i[1u])]"),
        (["store", "o", ONE, ["sg_shuffle", ONE, LOAD["i"]]], "o[1u] = subgroup_shuffle(1u, cast<u32>(i[1u]))"),
        (["trap", LOAD["b"], "t"], 'trap(cast<u32>(b[1u]), "t")'),
        # narrow types
        (["store", "n", ONE, ["cast", "u8", ONE]], "n[1u] = cast<u32>(1u)"),
        (["store", "o", ONE, ["cast", "u32", LOAD["n"]]], "o[1u] = cast<u32>(n[1u])"),
        # literals
        (["store", "w", ONE, ["opaque", "vyre.literal.u64", "efcdab8967452301"]], "w[1u] = 0x123456789abcdefu64"),
        # the rest
        (
            ["loop", "k", ONE, ["bin", "BitAnd", LOAD["i"], LOAD["i"]], []],
            "for k in 1u .. cast<u32>(i[1u] & i[1u]) {\n  }",
        ),
        (
            ["store", "o", ONE, ["atomic", "Add", "o", ONE, None, ONE, "Relaxed"]],
            "o[1u] = atomic_add.relaxed(o, 1u, 1u)",
        ),
        (["store", "o", ["f32", "00000000"], LOAD["f"]], "o[0.0f] = f[1u]"),
    ],
)
def test_conversions(statement: list[Any], text: str) -> None:
    program = imported(statement).program
    assert print_program(program) == f"{HEAD}body {{\n  {text}\n}}\n"
    assert parse_program(print_program(program)) == program


def test_locals_keep_the_type_they_compute_in() -> None:
    entry = (
        ["let", "x", ["bin", "BitAnd", LOAD["i"], LOAD["i"]]],
        ["assign", "x", ONE],
        ["store", "o", ONE, ["var", "x"]],
        ["block", [["let", "y", ["var", "x"]], ["store", "f", ONE, ["cast", "f32", ["var", "y"]]]]],
        ["store", "o", ONE, ["var", "y"]],
    )
    body = print_program(imported(*entry).program).removeprefix(HEAD)
    assert body == (
        "body {\n  let x = i[1u] & i[1u]\n  x := cast<i32>(1u)\n  o[1u] = cast<u32>(x)\n"
        "  block {\n    let y = x\n    f[1u] = cast<f32>(y)\n  }\n  o[1u] = y\n}\n"
    )


def test_collectives_of_one_rank_become_copies() -> None:
    found = imported(["all_reduce", "o", "Sum", 0], ["broadcast", "o", 0, 0], ["all_gather", "o", "i", 0])
    assert print_program(found.program).removeprefix(HEAD) == (
        "body {\n  if gid.x < len(i) {\n    if gid.x < len(o) {\n      i[gid.x] = o[gid.x]\n    }\n  }\n}\n"
    )
    assert len(found.notes) == 3


@pytest.mark.parametrize(
    ("statement", "feature"),
    [
        (["store", "o", ONE, ["call", "some.op", [ONE]]], "call of some.op"),
        (["store", "o", ONE, ["opaque", "some.kind", ""]], "opaque expression some.kind"),
        (["opaque", "some.kind", ""], "opaque statement some.kind"),
        (["resume", "t"], "resume"),
        (["store", "o", ONE, ["atomic", "CompareExchangeWeak", "o", ONE, ONE, ONE, "SeqCst"]], "compare_exchange_weak"),
        (["store", "o", ONE, ["atomic", "LruUpdate", "o", ONE, None, ONE, "SeqCst"]], "lru_update"),
        (["store", "o", ONE, ["bin", "WaveReduce", ONE, ONE]], "wave_reduce"),
        (["store", "o", ONE, ["un", "Unpack4Low", ONE]], "unpack4_low"),
        (["store", "o", ONE, ["cast", ["vec", "f32", 3], ONE]], "cast to vec"),
        (["all_reduce", "o", "Sum", 3], "group 3"),
        (["broadcast", "o", 7, 0], "rank 7"),
    ],
)
def test_what_has_no_meaning_here_is_refused_by_name(statement: list[Any], feature: str) -> None:
    with pytest.raises(UnsupportedFeature, match=feature):
        imported(statement)


def buffer_with(**attributes: object) -> list[dict[str, Any]]:
    return [{**NAMED_BUFFERS[0], **attributes}]


@pytest.mark.parametrize(
    ("predicate", "holds"),
    [
        (["at_least", 4], True),
        (["at_least", 5], False),
        (["at_most", 3], False),
        (["exactly", 4], True),
        (["multiple_of", 2], True),
        (["multiple_of", 0], False),
        (["mod_equals", 3, 1], True),
        (["mod_equals", 1, 1], False),
        (["affine_range", 2, -1, 7, 7], True),
        (["affine_range", 2, 0, 9, 12], False),
        (["and", ["at_least", 1], ["not", ["exactly", 4]]], False),
        (["or", ["at_least", 5], ["exactly", 4]], True),
    ],
)
def test_shape_predicates_are_checked_then_dropped(predicate: list[Any], holds: bool) -> None:
    if holds:
        assert "checked and dropped" in imported(buffers=buffer_with(shape_predicate=predicate)).notes[0]
    else:
        with pytest.raises(InvalidProgram, match="forbids"):
            imported(buffers=buffer_with(shape_predicate=predicate))


def test_buffer_attributes() -> None:
    assert imported(buffers=buffer_with(pipeline_live_out=True)).program.buffers[0].is_output
    assert not imported(buffers=buffer_with(pipeline_live_out=True, access="ReadOnly")).program.buffers[0].is_output
    assert imported(buffers=buffer_with(access="WriteOnly")).program.buffers[0].is_output
    assert imported(buffers=buffer_with(bytes_extraction=True)).notes
    with pytest.raises(UnsupportedFeature, match="linear type Affine of buffer `o`"):
        imported(buffers=buffer_with(linear_type="Affine"))


def test_the_tagged_schema() -> None:
    buffer = {"name": "o", "binding": 0, "access": 1, "element": 11, "count": 4, "is_output": False, "live": True}
    entry = [
        ["store", "o", ["wid", 0], ["f32", 0x3FC0_0000]],
        ["let", "old", ["atomic", 8, 0, "o", ["slid"], ["u32", 1], ["sel", ["u32", 1], ["u32", 2], ["buflen", "o"]]]],
        ["ret"],
    ]
    found = import_upstream(
        {"buffers": [buffer], "wg": [1, 2, 3], "entry": entry, "op": "x", "nonself": True, "raw": True}
    )
    assert print_program(found.program) == (
        "program x\nnon_composable\nworkgroup_size 1, 2, 3\nbuffer o @0 read_write f32[4] output\nbody {\n"
        "  o[wid.x] = 1.5f\n"
        "  let old = atomic_compare_exchange.relaxed(o, subgroup_lane(), 1u, select(cast<bool>(1u), 2u, len(o)))\n"
        "  return\n}\n"
    )
    assert found.program.buffers[0].element is f32 and found.program.buffers[0].access is Access.READ_WRITE
    assert bits_value(f32, 0x3FC0_0000) == 1.5


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "expected a program"),
        ({"workgroup_size": [1, 1, 1]}, "missing key 'buffers'"),
        ({"wg": [1, 1, 1], "buffers": [{"name": 1}], "entry": []}, "missing key"),
        ({"wg": [1, 1, 1], "buffers": [], "entry": [["bin"]]}, "unknown statement tag"),
        ({"wg": [1, 1, 1], "buffers": [], "entry": [["let", "a", ["un", 99, ["u32", 1]]]]}, "the tag of UnaryOp"),
    ],
)
def test_what_is_no_program_is_malformed(value: object, message: str) -> None:
    with pytest.raises(MalformedJson, match=message):
        import_upstream(value)


def test_every_program_that_runs_upstream_is_imported() -> None:
    refused = []
    for record in oracle_programs():
        try:
            import_upstream(record["program"])
        except (UnsupportedFeature, InvalidProgram):
            refused.append(record)
    assert [record["name"] for record in refused if record["status"] == "ok" or "legal_here" in record["tags"]] == []
    assert {record["name"] for record in refused} >= {"inv_linear_unused", "ok_unresolved_call", "wire_all_nodes"}
    assert len([import_upstream(record["program"]) for record in conformance_programs()]) == 26
