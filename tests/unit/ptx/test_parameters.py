"""The parameter list: order, alignment, and what a launcher is told."""

from __future__ import annotations

import re

import pytest

from support.programs import generate
from vyre.adapters.cuda.ptx.emit import emit
from vyre.adapters.cuda.ptx.kernel import EmittedKernel, Init, Parameter, ParameterKind
from vyre.adapters.cuda.ptx.options import EmitOptions
from vyre.domain.ir.builder import ProgramBuilder
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import bool_, f32, f64, i64, u8, u32, u64
from vyre.gallery.registry import examples

K = ParameterKind


def mixed() -> Program:
    """Scalars of both sizes between buffers, a small uniform buffer, a trap."""
    with ProgramBuilder("mixed", workgroup=32) as p:
        flag = p.param("flag", bool_)
        x = p.input("x", u8)
        big = p.param("big", u64)
        table = p.uniform("table", f32, 5)
        y = p.inout("y", f32)
        scale = p.param("scale", f64)
        out = p.output("out", f32, like="y")
        i = p.global_id()
        with p.if_(flag & (big > u64(9))):
            p.trap(i, "too big")
        out[i] = table[i % 5] + y[i] + scale.cast(f32) + x[i].cast(f32)
    return p.build()


def only(module_kernels: tuple[EmittedKernel, ...]) -> EmittedKernel:
    (kernel,) = module_kernels
    return kernel


def test_the_order_is_pointers_words_counts_uniforms() -> None:
    kernel = only(emit(mixed()).kernels)
    assert [(p.kind, p.name, p.offset, p.size, p.align) for p in kernel.parameters] == [
        (K.POINTER, "x", 0, 8, 8),
        (K.POINTER, "table", 8, 8, 8),
        (K.POINTER, "y", 16, 8, 8),
        (K.POINTER, "out", 24, 8, 8),
        (K.TRAP, None, 32, 8, 8),
        (K.SCALAR, "big", 40, 8, 8),
        (K.SCALAR, "scale", 48, 8, 8),
        (K.COUNT, "x", 56, 4, 4),
        (K.COUNT, "table", 60, 4, 4),
        (K.COUNT, "y", 64, 4, 4),
        (K.COUNT, "out", 68, 4, 4),
        (K.SCALAR, "flag", 72, 4, 4),
        (K.UNIFORM, "table", 80, 20, 16),
    ]
    assert kernel.parameter_bytes == 100
    assert kernel.trap_tags == ("too big",)


def test_the_documented_form() -> None:
    document = emit(mixed()).to_json()
    assert document["format"] == 1
    assert document["target"] == "sm_90" and document["version"] == "7.8"
    assert document["entry"] == document["kernels"][0]["entry"]
    assert document["block"] == [32, 1, 1] and document["cooperative"] is False
    by_name = {(p["kind"], p["name"]): p for p in document["params"]}
    assert by_name["pointer", "y"]["init"] == "input"
    assert by_name["pointer", "out"]["init"] == "zero"
    assert by_name["trap", None] == {
        "kind": "trap", "name": None, "binding": None, "dtype": None, "offset": 32, "size": 8, "align": 8,
        "init": "zero", "bytes": 32,
    }  # fmt: skip
    assert by_name["scalar", "scale"]["dtype"] == "f64"
    assert by_name["pointer", "x"]["binding"] == 1 and by_name["pointer", "x"]["dtype"] == "u8"


@pytest.mark.parametrize("table", [False, True])
def test_natural_alignment_leaves_no_gap_but_before_uniforms(table: bool) -> None:
    programs = [example.program() for example in examples().values()] + [generate(s).program for s in range(40)]
    for program in programs:
        for kernel in emit(program, EmitOptions(pointer_table=table)).kernels:
            end = 0
            for parameter in kernel.parameters:
                assert parameter.offset % parameter.align == 0
                assert parameter.offset == end or parameter.kind is K.UNIFORM
                assert parameter.offset - end < 16
                end = parameter.offset + parameter.size
            assert kernel.parameter_bytes == end


def test_the_text_declares_what_the_list_says() -> None:
    module = emit(mixed())
    declared = re.findall(r"\.param (?:\.align 16 )?\.(u64|u32|b8) (\w+?)(?:\[(\d+)\])?[,\n]", module.ptx)
    sizes = [int(extent) if kind == "b8" else {"u64": 8, "u32": 4}[kind] for kind, _, extent in declared]
    assert sizes == [p.size for p in only(module.kernels).parameters]


def test_a_table_replaces_pointers_and_counts() -> None:
    kernel = only(emit(mixed(), EmitOptions(pointer_table=True)).kernels)
    table = kernel.parameters[0]
    assert table == Parameter(K.TABLE, 0, 8, 8, init=Init.ZERO, nbytes=64)
    assert not any(p.kind in (K.POINTER, K.COUNT) for p in kernel.parameters)


def test_many_bindings_go_into_a_table_by_themselves() -> None:
    def program(buffers: int) -> Program:
        with ProgramBuilder("wide", workgroup=32) as p:
            inputs = [p.input(f"x{n}", u32) for n in range(buffers)]
            out = p.output("out", u32, 32)
            total = p.var(u32(0))
            for buffer in inputs:
                total.assign(total + buffer[p.global_id()])
            out[p.global_id()] = total
        return p.build()

    assert only(emit(program(320)).kernels).parameters[0].kind is K.POINTER
    assert only(emit(program(400)).kernels).parameters[0].kind is K.TABLE


def test_the_opaque_zero_is_a_scalar_with_a_value() -> None:
    with ProgramBuilder("rotate", workgroup=32) as p:
        out = p.inout("out", u32)
        from vyre import rotl

        out[p.global_id()] = rotl(out[p.global_id()], 7)
    (word,) = (p for p in only(emit(p.build()).kernels).parameters if p.kind is K.SCALAR)
    assert (word.name, word.binding, word.value, word.size) == (None, None, 0, 4)


def test_an_eight_byte_scalar_is_aligned() -> None:
    with ProgramBuilder("one", workgroup=1) as p:
        n = p.param("n", i64)
        out = p.output("out", i64, 1)
        out[0] = n
    kernel = only(emit(p.build()).kernels)
    assert [(q.kind, q.offset) for q in kernel.parameters] == [(K.POINTER, 0), (K.SCALAR, 8), (K.COUNT, 16)]
