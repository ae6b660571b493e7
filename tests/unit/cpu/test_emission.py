"""The emission facet of the CPU backend: LLVM IR and assembly with places in the user's source."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import vyre
from support.small_programs import saxpy_program
from vyre.adapters.cpu.emission import CpuEmission, CpuModule, located_assembly, located_llvm
from vyre.adapters.cpu.llvm.emit import emit
from vyre.adapters.cpu.native.compilation import Effort, assembly
from vyre.adapters.cpu.native.features import AARCH64, CpuFeatures, host
from vyre.app.journal import DecisionJournal
from vyre.domain.errors import DeviceLimitExceeded, UnsupportedFeature, VyreError
from vyre.domain.ir.program import Program
from vyre.domain.ir.text import parse_program
from vyre.domain.program_report import InvalidProgram
from vyre.domain.specialization import complete_spec
from vyre.policies.emission.constant_division import DivisionInputs
from vyre.ports.emission import EmissionOptions

HERE = str(Path(__file__))


def kernel() -> Program:
    with vyre.ProgramBuilder("kernel", workgroup=64) as p:
        x, y = p.input("x", vyre.f32), p.output("y", vyre.f32, like="x")
        i = p.global_id()
        with p.if_(i < x.length):
            y[i] = vyre.sqrt(x[i]) + 1.0  # the line that is looked for
    return p.build()


def stored_line() -> int:
    lines = Path(__file__).read_text("utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith("# the line that is looked for"))


def emitted(program: Program, form: str) -> CpuModule:
    return CpuEmission().emit(program, EmissionOptions(target="cpu", form=form), {})


def places(text: str, mark: str) -> list[str]:
    return re.findall(rf"^\s*{mark} (.*)$", text, re.MULTILINE)


def test_llvm_names_the_lines_of_the_program_and_is_valid() -> None:
    module = emitted(kernel(), "llvm")
    found = places(module.text, ";")
    assert set(found) == {f"{HERE}:{stored_line() - 1}", f"{HERE}:{stored_line()}"}
    assert "!dbg" not in module.text and "DILocation" not in module.text
    after = module.text.split(f"; {HERE}:{stored_line()}\n")[1]
    assert "llvm.sqrt" in after
    assembly(module.text, host(), Effort.LIGHT)  # which refuses text that is not valid


def test_assembly_names_the_lines_of_the_program() -> None:
    module = emitted(kernel(), "asm")
    mark = "//" if host().arch == AARCH64 else "#"
    assert {f"{HERE}:{stored_line()}"} <= set(places(module.text, mark))
    assert "sqrt" in module.text.split(f"{mark} {HERE}:{stored_line()}\n", 1)[1]
    assert not re.search(r"^\s*\.(loc|file|cfi)", module.text, re.MULTILINE)


def test_comments_of_aarch64_are_its_own() -> None:
    features = CpuFeatures(AARCH64, ("fp-armv8", "neon"), 128)
    text = '\t.file\t1 "/a b" "k\\303\\244.py"\n\t.loc\t1 12 5\n\tfsqrt\tv0.4s, v0.4s\n'
    text += "\t.loc\t1 0 5\n\t.loc\t1 12 5\n\tret\n"
    assert located_assembly(text, features.arch) == "\t// /a b/kä.py:12:5\n\tfsqrt\tv0.4s, v0.4s\n\tret\n"
    assert located_assembly('\t.file\t"<string>"\n\t.file\t1 "k.py"\n\t.loc\t1 3 0\n', "x86_64") == "\t# k.py:3\n"


def test_a_name_of_a_file_stays_on_one_line() -> None:
    text = (
        '!2 = !DIFile(filename: "a\\0Ab\\22.py", directory: "")\n'
        "!3 = !DILexicalBlockFile(scope: !1, file: !2, discriminator: 0)\n"
        "!4 = !DILocation(line: 7, column: 3, scope: !3)\n"
        "  ret void, !dbg !4\n"
    )
    assert located_llvm(text) == '  ; a\\nb".py:7:3\n  ret void\n'


def test_the_document_has_what_a_launcher_needs() -> None:
    module = emitted(saxpy_program(), "llvm")
    document = module.to_json()
    assert (document["target"], document["form"], document["text"]) == ("cpu", "llvm", module.text)
    assert [(b["name"], b["address_word"], b["count_word"]) for b in document["buffers"]] == [
        (buffer.name, 6 + 2 * place, 7 + 2 * place) for place, buffer in enumerate(saxpy_program().abi_buffers)
    ]
    (entry,) = document["kernels"]
    assert f"define void @{entry['entry']}(ptr %frame, i64 %begin, i64 %end, ptr %scratch)" in module.text
    assert document["architecture"] == host().arch


def test_subgroups_are_vectors_of_32_lanes_and_grid_barriers_split() -> None:
    text = """workgroup_size 64, 1, 1
    buffer y @0 read_write u32[64]
    body { y[gid.x] = subgroup_add(y[gid.x]) barrier(grid_sync) y[gid.x] = y[gid.x] + 1u }"""
    module = emitted(parse_program(text), "llvm")
    assert module.to_json()["lanes"] == 32
    assert len(module.to_json()["kernels"]) == 2


def test_what_is_refused() -> None:
    broken = parse_program("workgroup_size 64, 1, 1 buffer y @0 read u32[64] body { y[gid.x] = 1u }")
    with pytest.raises(InvalidProgram):
        emitted(broken, "llvm")
    with pytest.raises(InvalidProgram):
        CpuEmission().keys(broken, EmissionOptions(target="cpu"), complete_spec(broken, None))


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("workgroup_size 64, 1, 1 buffer y @0 read u32[64] body { y[gid.x] = 1u }", InvalidProgram),
        ("workgroup_size 65536, 1, 1 buffer y @0 read_write u32[64] body { y[gid.x] = 1u }", DeviceLimitExceeded),
        ("workgroup_size 4, 1, 1 buffer y @0 read_write u32[64] body { indirect_dispatch(y, 0) }", UnsupportedFeature),
    ],
)
def test_what_no_launch_runs_is_neither_emitted_nor_has_keys(text: str, refused: type[VyreError]) -> None:
    program = parse_program(text)
    for form in ("llvm", "asm"):
        with pytest.raises(refused):
            emitted(program, form)
    with pytest.raises(refused):
        CpuEmission().keys(program, EmissionOptions(target="cpu"), complete_spec(program, None))
    with vyre.open("cpu", cache=False) as session, pytest.raises(refused):
        session.compile(program)


def test_every_kernel_names_its_first_place_even_if_it_is_that_of_the_one_before() -> None:
    places_of = '!2 = !DIFile(filename: "k.py", directory: "")\n'
    places_of += "!3 = !DILexicalBlockFile(scope: !1, file: !2, discriminator: 0)\n"
    places_of += "!4 = !DILocation(line: 7, column: 0, scope: !3)\n"
    one = "define void @vyre_kernel_{0}() {{\n  ret void, !dbg !4\n}}\n"
    assert located_llvm(places_of + one.format(0) + one.format(1)).count("  ; k.py:7\n") == 2
    one = "vyre_kernel_{0}:\n\t.loc\t1 7 0\n\tret\n"
    assert located_assembly('\t.file\t1 "k.py"\n' + one.format(0) + one.format(1), "x86_64").count("# k.py:7") == 2


def test_a_launcher_is_told_what_copies_need() -> None:
    program = parse_program(
        """workgroup_size 4, 1, 1 buffer x @0 read_write u32[runtime] buffer y @1 read_write u32[runtime]
        body { async_store(x, y, 0u, gid.x, "t") x[gid.x] = 1u y[gid.x] = 2u async_wait("t") }"""
    )
    document = emitted(program, "llvm").to_json()
    (kernel,) = document["kernels"]
    assert kernel["captures"] == [{"lanes": document["lanes"], "buffers": ["x", "y"], "most": None}]


def test_the_facet_describes_itself() -> None:
    facet = CpuEmission()
    assert (facet.targets, facet.default_target, facet.forms, facet.assumptions) == (
        ("cpu",),
        "cpu",
        ("llvm", "asm"),
        (),
    )


def test_divisions_by_constants_are_recorded() -> None:
    program = parse_program(
        "workgroup_size 64, 1, 1 buffer y @0 read_write u32[64] body { y[gid.x] = y[gid.x] / 7u + y[gid.x] % 10u }"
    )
    journal = DecisionJournal()
    emit(program, sink=journal)
    assert {decision.name for decision in journal.decisions} == {"divide_by"}
    assert {asked.divisor for d in journal.decisions if isinstance(asked := d.arguments[0], DivisionInputs)} == {7, 10}
