"""The compiler: fixed pipelines, no contraction, exactly the named features, typed errors."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Final

import pytest

from support.limits import LIMIT_S
from support.llvm import NEEDS_LLVM
from vyre.adapters.cpu.native import compilation
from vyre.adapters.cpu.native.compilation import Effort, assembly, compile_object, llvm_version
from vyre.adapters.cpu.native.features import CpuFeatures, parse_features
from vyre.domain.errors import BackendUnavailable, KernelCompileFailed

pytestmark = NEEDS_LLVM

SSE: Final = parse_features("x86_64+sse3+sse4.1+sse4.2+ssse3")
AVX2: Final = parse_features("x86_64+avx+avx2+f16c+fma+sse3+sse4.1+sse4.2+ssse3")
AVX512: Final = parse_features(f"{AVX2.text}+avx512bw+avx512dq+avx512f+avx512vl")
NEON: Final = parse_features("aarch64+fp-armv8+neon")
PROCESSORS: Final = {"sse": SSE, "avx2": AVX2, "avx512": AVX512, "neon": NEON}

LOOP: Final = """
declare <16 x i32> @llvm.masked.gather.v16i32.v16p0(<16 x ptr>, <16 x i1>, <16 x i32>)

define void @kernel(ptr %from, ptr %to, i64 %rounds) nounwind {
entry:
  %sum = alloca <16 x float>, align 64
  %n = alloca i64, align 8
  store <16 x float> zeroinitializer, ptr %sum, align 64
  store i64 0, ptr %n, align 8
  br label %head
head:
  %i = load i64, ptr %n, align 8
  %more = icmp ult i64 %i, %rounds
  br i1 %more, label %body, label %done
body:
  %at = getelementptr <16 x float>, ptr %from, i64 %i
  %x = load <16 x float>, ptr %at, align 4
  %square = fmul <16 x float> %x, %x
  %before = load <16 x float>, ptr %sum, align 64
  %after = fadd <16 x float> %before, %square
  store <16 x float> %after, ptr %sum, align 64
  %next = add i64 %i, 1
  store i64 %next, ptr %n, align 8
  br label %head
done:
  %result = load <16 x float>, ptr %sum, align 64
  store <16 x float> %result, ptr %to, align 4
  ret void
}
define <16 x i32> @gathered(<16 x ptr> %from, <16 x i1> %mask) nounwind {
  %values = call <16 x i32> @llvm.masked.gather.v16i32.v16p0(<16 x ptr> align 4 %from, <16 x i1> %mask,
    <16 x i32> zeroinitializer)
  ret <16 x i32> %values
}
"""
FUSED: Final = """
declare <8 x float> @llvm.fma.v8f32(<8 x float>, <8 x float>, <8 x float>)
define <8 x float> @fused(<8 x float> %a, <8 x float> %b, <8 x float> %c) nounwind {
  %value = call <8 x float> @llvm.fma.v8f32(<8 x float> %a, <8 x float> %b, <8 x float> %c)
  ret <8 x float> %value
}
"""


@pytest.mark.parametrize("effort", Effort)
@pytest.mark.parametrize("processor", PROCESSORS)
def test_no_product_and_sum_are_contracted(processor: str, effort: Effort) -> None:
    text = assembly(LOOP, PROCESSORS[processor], effort)
    assert re.search(r"f?mulps|fmul", text)
    assert not re.search(r"v?fn?m(add|sub)|fml[as]", text)


@pytest.mark.parametrize("effort", Effort)
def test_a_requested_fma_is_one(effort: Effort) -> None:
    assert "vfmadd" in assembly(FUSED, AVX2, effort)
    assert "fmla" in assembly(FUSED, NEON, effort)


@pytest.mark.parametrize("effort", Effort)
def test_a_vector_is_as_wide_as_the_registers(effort: Effort) -> None:
    found = {name: set(re.findall(r"%([xyz]mm)", assembly(LOOP, PROCESSORS[name], effort))) for name in PROCESSORS}
    assert "zmm" in found["avx512"]
    assert "ymm" in found["avx2"] and "zmm" not in found["avx2"]
    assert found["sse"] == {"xmm"}


def test_a_gather_is_an_instruction_where_the_processor_has_one() -> None:
    found = {name: "gatherqd" in assembly(LOOP, PROCESSORS[name], Effort.LIGHT) for name in PROCESSORS}
    assert found == {"sse": False, "avx2": True, "avx512": True, "neon": False}


@pytest.mark.parametrize("effort", [Effort.LIGHT, Effort.FULL])
def test_locals_become_registers(effort: Effort) -> None:
    """Quick effort runs no pass that could do that."""
    assert "rsp" not in assembly(LOOP.partition("define <16 x i32>")[0], AVX512, effort)


LOCATED: Final = """
define i32 @located(i32 %a, i32 %b) nounwind !dbg !3 {
  %x = mul i32 %a, %b, !dbg !5
  ret i32 %x, !dbg !6
}
!llvm.module.flags = !{!0}
!llvm.dbg.cu = !{!1}
!0 = !{i32 2, !"Debug Info Version", i32 3}
!1 = distinct !DICompileUnit(language: DW_LANG_C99, file: !2, emissionKind: DebugDirectivesOnly)
!2 = !DIFile(filename: "product.py", directory: "/src")
!3 = distinct !DISubprogram(name: "located", file: !2, line: 1, type: !4, unit: !1, spFlags: DISPFlagDefinition)
!4 = !DISubroutineType(types: !{})
!5 = !DILocation(line: 12, column: 3, scope: !3)
!6 = !DILocation(line: 14, column: 5, scope: !3)
"""


def test_annotated_assembly_names_the_source() -> None:
    text = assembly(LOCATED, AVX2, Effort.LIGHT, annotated=True)
    assert "# product.py:12:3" in text and "# product.py:14:5" in text
    assert ".debug_info" not in text
    assert "#" not in assembly(LOCATED, AVX2, Effort.LIGHT)


@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("system", ["linux", "darwin", "win32"])
def test_every_target_has_objects(processor: str, system: str) -> None:
    data = compile_object(LOOP, PROCESSORS[processor], Effort.LIGHT, system=system)
    assert data.startswith(b"\x7fELF\x02\x01\x01")
    assert int.from_bytes(data[18:20], "little") == (183 if processor == "neon" else 62)


@pytest.mark.parametrize("effort", Effort)
def test_the_same_text_gives_the_same_bytes(effort: Effort) -> None:
    assert compile_object(LOOP, AVX2, effort) == compile_object(LOOP, AVX2, effort)


@pytest.mark.parametrize(
    ("text", "log"),
    [
        ("define i32 @f() {", "found end of file"),
        ("define i32 @f() {\n  ret i64 0\n}", "doesn't match function result type"),
        ("define i32 @f(i1 %c) {\n  br i1 %c, label %a, label %b\na:\n  %x = add i32 1, 2\n  br label %b\nb:\n"
         "  ret i32 %x\n}", "does not dominate"),
        ("define void @f() {\n  ret void\n}\0", "zero byte"),
    ],
    ids=["cut off", "type", "dominance", "zero"],
)  # fmt: skip
def test_wrong_text_is_a_typed_error(text: str, log: str) -> None:
    with pytest.raises(KernelCompileFailed, match="could not compile the kernel") as failed:
        compile_object(text, AVX2, Effort.LIGHT)
    assert log in failed.value.compiler_log
    assert failed.value.backend == "cpu"


def test_an_unknown_processor_is_told() -> None:
    with pytest.raises(BackendUnavailable, match="kernels for riscv64 on linux cannot be compiled"):
        compile_object(LOOP, CpuFeatures("riscv64", (), 128), Effort.LIGHT, system="linux")


def test_the_version_changes_with_the_library() -> None:
    version = llvm_version()
    assert version is not None
    assert re.fullmatch(r"llvmlite \d+\.\d+\S*, \d{6,} bytes", version)


def test_without_llvmlite_there_is_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation, "find_spec", lambda name: None)
    assert llvm_version.__wrapped__() is None


MISSING: Final = """
import sys
sys.modules["llvmlite"] = None
from vyre.adapters.cpu.native.compilation import Effort, compile_object
from vyre.adapters.cpu.native.features import host
from vyre.domain.errors import BackendUnavailable
try:
    compile_object("", host(), Effort.LIGHT)
except BackendUnavailable as error:
    print(error)
"""


def test_without_llvmlite_the_error_says_what_to_install() -> None:
    done = subprocess.run([sys.executable, "-c", MISSING], capture_output=True, text=True, timeout=LIMIT_S)
    assert done.stdout == (
        "backend `cpu`: the package llvmlite, which compiles its kernels, is not installed. "
        'Fix: install it (`pip install "vyre[cpu]"`), or ask for `reference`.\n'
    ), done.stderr


def test_the_light_pipeline_keeps_slots_in_registers_and_leaves_other_text_as_it_is() -> None:
    text = assembly(LOOP, AVX2, Effort.LIGHT)
    assert "rsp" not in text[text.index("kernel:") : text.index("gathered:")]
