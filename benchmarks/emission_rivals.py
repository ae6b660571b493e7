"""PTX from the same kernels by LLVM (through llvmlite) and by NVRTC.

Their kernels are written as a practitioner would write them: no bounds checks but the guard, which ours has beside its
own, so they have less to do.  ``mul`` and ``add`` stay apart in both (LLVM contracts nothing by itself).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

import llvmlite.binding as llvm
from cuda.bindings import nvrtc

from benchmarks.kernels import chain_constants

TARGET: Final = 90
_NVRTC_OPTIONS: Final = (f"--gpu-architecture=compute_{TARGET}".encode(), b"--fmad=false")

FIFTY_NODES_CUDA: Final = """
extern "C" __global__ void __launch_bounds__(128) fifty_nodes(const float *x, float *y, unsigned n) {
    unsigned i = blockIdx.x * 128u + threadIdx.x;
    if (i < n) {
        float t = x[i] * 0.5f;
        for (unsigned k = 0; k < 4; k++) {
            float u = t * t + x[i + k];
            y[i + k * 2u] = u + y[i] * 0.25f;
        }
        if (t > y[i]) y[i] = t - y[i];
        else y[i] = y[i] * t + 0.0f;
    }
}
"""

_LLVM_HEAD: Final = """
target triple = "nvptx64-nvidia-cuda"
target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
"""

FIFTY_NODES_LLVM: Final = (
    _LLVM_HEAD
    + """
define ptx_kernel void @fifty_nodes(ptr addrspace(1) %x, ptr addrspace(1) %y, i32 %n) {
entry:
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %group = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %base = mul i32 %group, 128
  %i = add i32 %base, %tid
  %inside = icmp ult i32 %i, %n
  br i1 %inside, label %body, label %end
body:
  %i64 = zext i32 %i to i64
  %px = getelementptr float, ptr addrspace(1) %x, i64 %i64
  %py = getelementptr float, ptr addrspace(1) %y, i64 %i64
  %x0 = load float, ptr addrspace(1) %px
  %t = fmul float %x0, 0.5
  br label %loop
loop:
  %k = phi i32 [ 0, %body ], [ %next, %loop ]
  %square = fmul float %t, %t
  %ik = add i32 %i, %k
  %ik64 = zext i32 %ik to i64
  %pxk = getelementptr float, ptr addrspace(1) %x, i64 %ik64
  %xk = load float, ptr addrspace(1) %pxk
  %u = fadd float %square, %xk
  %y0 = load float, ptr addrspace(1) %py
  %quarter = fmul float %y0, 0.25
  %sum = fadd float %u, %quarter
  %k2 = mul i32 %k, 2
  %j = add i32 %i, %k2
  %j64 = zext i32 %j to i64
  %pyj = getelementptr float, ptr addrspace(1) %y, i64 %j64
  store float %sum, ptr addrspace(1) %pyj
  %next = add i32 %k, 1
  %more = icmp ult i32 %next, 4
  br i1 %more, label %loop, label %after
after:
  %y1 = load float, ptr addrspace(1) %py
  %above = fcmp ogt float %t, %y1
  br i1 %above, label %then, label %else
then:
  %minus = fsub float %t, %y1
  store float %minus, ptr addrspace(1) %py
  br label %end
else:
  %scaled = fmul float %y1, %t
  %plus = fadd float %scaled, 0.0
  store float %plus, ptr addrspace(1) %py
  br label %end
end:
  ret void
}
"""
)


def chain_cuda(operations: int) -> str:
    """``operations`` dependent operations, two a line: ``v = (v ^ a) * b``."""
    steps = "\n".join(f"    v = (v ^ {a}u) * {b}u;" for a, b in chain_constants(operations))
    return (
        'extern "C" __global__ void __launch_bounds__(64) chain(const unsigned *x, unsigned *y, unsigned n) {\n'
        "    unsigned i = blockIdx.x * 64u + threadIdx.x;\n    if (i >= n) return;\n    unsigned v = x[i];\n"
        f"{steps}\n    y[i] = v;\n}}\n"
    )


def chain_llvm(operations: int) -> str:
    steps = "\n".join(
        f"  %a{k} = xor i32 %v{k}, {a}\n  %v{k + 1} = mul i32 %a{k}, {b}"
        for k, (a, b) in enumerate(chain_constants(operations))
    )
    return (
        _LLVM_HEAD
        + f"""
define ptx_kernel void @chain(ptr addrspace(1) %x, ptr addrspace(1) %y, i32 %n) {{
entry:
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %group = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %base = mul i32 %group, 64
  %i = add i32 %base, %tid
  %inside = icmp ult i32 %i, %n
  br i1 %inside, label %body, label %end
body:
  %i64 = zext i32 %i to i64
  %px = getelementptr i32, ptr addrspace(1) %x, i64 %i64
  %py = getelementptr i32, ptr addrspace(1) %y, i64 %i64
  %v0 = load i32, ptr addrspace(1) %px
{steps}
  store i32 %v{operations // 2}, ptr addrspace(1) %py
  br label %end
end:
  ret void
}}
"""
    )


@cache
def _target_machine() -> Any:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple("nvptx64-nvidia-cuda").create_target_machine(cpu=f"sm_{TARGET}", opt=3)


def llvm_ptx(source: str) -> str:
    """Parse, optimise (the pipeline of -O2), emit."""
    machine = _target_machine()
    module = llvm.parse_assembly(source)
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    builder.getModulePassManager().run(module, builder)
    text: str = machine.emit_assembly(module)
    return text


def nvrtc_ptx(source: str) -> str:
    program = _checked(nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, [], []))
    try:
        _checked(nvrtc.nvrtcCompileProgram(program, len(_NVRTC_OPTIONS), list(_NVRTC_OPTIONS)))
        text = b"\0" * _checked(nvrtc.nvrtcGetPTXSize(program))
        _checked(nvrtc.nvrtcGetPTX(program, text))
        return text.rstrip(b"\0").decode()
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _checked(answer: tuple[Any, ...]) -> Any:
    if int(answer[0]) != 0:
        raise RuntimeError(f"NVRTC failed: {answer[0]}")
    return answer[1] if len(answer) > 1 else None


COMPILERS: Final[dict[str, Callable[[str], str]]] = {"llvmlite": llvm_ptx, "nvrtc": nvrtc_ptx}
