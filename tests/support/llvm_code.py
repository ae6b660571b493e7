"""Compiles LLVM IR text in this process and calls its functions."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from enum import Enum
from functools import cache
from typing import Any, Final

import llvmlite.binding as llvm

HOST: Final = "host"
BASELINE: Final = ""


class Passes(Enum):
    """How much LLVM does before it generates code."""

    FEW = 1
    FULL = 3


@cache
def _initialized() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def host_features() -> str:
    """The features of the CPU of this machine, as LLVM writes them."""
    _initialized()
    return llvm.get_host_cpu_features().flatten()


def _machine(features: str, passes: Passes, triple: str | None = None, *, jit: bool) -> Any:
    target = llvm.Target.from_default_triple() if triple is None else llvm.Target.from_triple(triple)
    text = host_features() if features == HOST else features
    return target.create_target_machine(features=text, opt=passes.value, reloc="pic", codemodel="small", jit=jit)


def _optimized(text: str, machine: Any, passes: Passes) -> Any:
    module = llvm.parse_assembly(text)
    module.triple = machine.triple
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=passes.value)
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return module


def assembly(text: str, *, passes: Passes, features: str = HOST, triple: str | None = None) -> str:
    """The assembly of a module, for this machine or another one."""
    _initialized()
    machine = _machine(features, passes, triple, jit=False)
    return str(machine.emit_assembly(_optimized(text, machine, passes)))


class Code:
    """A module that is compiled for this machine, and callable."""

    def __init__(self, text: str, *, passes: Passes, features: str = HOST) -> None:
        _initialized()
        machine = _machine(features, passes, jit=True)
        self._engine: Final = llvm.create_mcjit_compiler(_optimized(text, machine, passes), machine)
        self._engine.finalize_object()

    def call(self, name: str, pointers: Sequence[int], count: int) -> None:
        """Calls ``void name(ptr..., i64)``."""
        kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(pointers), ctypes.c_int64)
        kind(self._engine.get_function_address(name))(*pointers, count)
