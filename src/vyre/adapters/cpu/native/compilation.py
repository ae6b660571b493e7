"""LLVM IR text to machine code, by LLVM through the package llvmlite, which is imported by the first compilation.

Three fixed efforts exist.  ``LIGHT`` suits emitted code, in which vectors, hoisted uniform values and shared
sub-expressions are explicit already: it puts slots into registers, and no other pass runs.  ``FULL`` is LLVM's own at
its highest level without the vectorisers, for kernels that run long.  ``QUICK`` is for functions so long that the
others, whose time grows with the square of the number of basic blocks, would take seconds to hours: no pass runs on the
text, instructions are selected without preparation, and registers are allocated block by block, all of which is linear
in the length.  Floating-point operations are never contracted: an FMA is formed only where the text asks for one.

llvmlite runs one call at a time for the whole process, so long compilations belong into ``server``'s process.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, closing
from enum import Enum
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

from vyre.adapters.cpu.native.features import AARCH64, X86_64, CpuFeatures
from vyre.adapters.forks import await_in_forks, process_lock
from vyre.domain.errors import BackendUnavailable, KernelCompileFailed
from vyre.ports.interrupts import sealed, undisturbed

BACKEND: Final = "cpu"


class Effort(Enum):
    """The work of LLVM on a module: ``QUICK`` for long text, ``LIGHT`` for fast compilation, ``FULL`` for fast code."""

    QUICK = "quick"
    LIGHT = "light"
    FULL = "full"


# ---------------------------------------------------------------- the version, without the package
@cache
def llvm_version() -> str | None:
    """Returns a text that changes with the installed LLVM, or None if llvmlite is not installed.

    It names llvmlite's version and the size of its library in bytes, since a distribution may build the same version
    against another LLVM.  Nothing is imported; the files are looked at once per process.
    """
    spec = find_spec("llvmlite")
    folders = () if spec is None else spec.submodule_search_locations or ()
    for folder in folders:
        try:
            text = Path(folder, "_version.py").read_text(encoding="utf-8")
            libraries = sorted(Path(folder, "binding").glob("*llvmlite*"))
            nbytes = sum(path.stat().st_size for path in libraries if path.suffix in (".so", ".dylib", ".dll"))
        except OSError:
            continue
        match = re.search(r"version_version = '([^']*)'", text) or re.search(r'"version": "([^"]*)"', text)
        if match and nbytes:
            return f"llvmlite {match[1]}, {nbytes} bytes"
    return None


# ---------------------------------------------------------------- LLVM
_TRIPLES: Final = {
    "linux": {X86_64: "x86_64-unknown-linux-gnu", AARCH64: "aarch64-unknown-linux-gnu"},
    "darwin": {X86_64: "x86_64-apple-darwin-elf", AARCH64: "arm64-apple-darwin-elf"},
    "win32": {X86_64: "x86_64-pc-windows-msvc-elf", AARCH64: "aarch64-pc-windows-msvc-elf"},
}
"""The targets, with the calling convention of each system.  Objects are ELF everywhere, which LLVM loads everywhere."""

_CPUS: Final = {X86_64: "x86-64", AARCH64: "generic"}
"""The processors that LLVM is told of.

``x86-64`` prefers no width of vectors, so that a vector of 16 32-bit lanes is one register wherever AVX-512 is among
the features.
"""
_LEVEL: Final = {Effort.QUICK: 0, Effort.LIGHT: 1, Effort.FULL: 3}
"""LLVM's levels for the passes and for code generation.

Light code of level 1 takes LLVM a tenth less time than that of level 2, and runs as fast.
"""
_SLOT: Final = " = alloca "
"""The instruction that only the pass ``sroa`` of light effort has work with."""
_IMPORTING: Final = process_lock()
_lost_in_fork = False
"""Whether the process was forked while a thread of its parent was inside LLVM."""


class _Machine(NamedTuple):
    """A code generator of LLVM, and the lines that the text of a module for it starts with."""

    target: Any
    header: str


def _llvm() -> Any:
    """Returns llvmlite's binding.

    Raises ``BackendUnavailable`` if it is not installed or does not load, or if LLVM cannot be used in this fork.
    """
    if _lost_in_fork:
        raise BackendUnavailable(
            f"backend `{BACKEND}`: LLVM cannot be used here: a thread of the parent was inside it during the fork",
            fix="fork while nothing compiles, or start workers with the `spawn` method.",
        )
    return _loaded_llvm()


@cache
def _loaded_llvm() -> Any:
    with _IMPORTING, sealed:
        try:
            import llvmlite.binding as llvm

            llvm.initialize_all_targets()
            llvm.initialize_all_asmprinters()
            llvm.initialize_native_asmparser()  # for inline assembly
        except (ImportError, OSError, AttributeError, RuntimeError) as error:
            missing = isinstance(error, ModuleNotFoundError)
            reason = "is not installed" if missing else f"does not load ({error})"
            raise BackendUnavailable(
                f"backend `{BACKEND}`: the package llvmlite, which compiles its kernels, {reason}",
                fix='install it (`pip install "vyre[cpu]"`), or ask for `reference`.',
            ) from error
    return llvm


def _llvm_lock() -> threading.RLock | None:
    """Returns the lock in which llvmlite calls LLVM; None where this version has another."""
    if "llvmlite.binding.ffi" not in sys.modules:
        return threading.RLock()  # nobody is inside
    lock = getattr(getattr(getattr(sys.modules["llvmlite.binding.ffi"], "lib", None), "_lock", None), "_lock", None)
    return lock if isinstance(lock, type(_IMPORTING)) else None


def _lose_llvm() -> None:
    """Takes note in a fork; finalisers of llvmlite find its lock free there."""
    global _lost_in_fork
    _lost_in_fork = True
    lock: Any = _llvm_lock()
    if lock is not None:
        lock._at_fork_reinit()


await_in_forks(_llvm_lock, _lose_llvm)


def is_lost_in_fork() -> bool:
    """Returns whether this fork cannot use LLVM, and has to compile in another process."""
    return _lost_in_fork


def prepare() -> None:
    """Imports and initialises LLVM, as the first compilation would.  Raises ``BackendUnavailable``."""
    _llvm()


def loaded_version() -> str:
    """Returns the version of LLVM, such as ``22.1.0``, which is imported for that.  Raises ``BackendUnavailable``."""
    return ".".join(str(part) for part in _llvm().llvm_version_info)


@cache
def _machine(features: CpuFeatures, level: int, system: str, annotated: bool = False) -> _Machine:
    try:
        triple, cpu = _TRIPLES[system][features.arch], _CPUS[features.arch]
    except KeyError:
        raise BackendUnavailable(
            f"backend `{BACKEND}`: kernels for {features.arch} on {system} cannot be compiled",
            fix="ask for `reference`; x86-64 and AArch64 are supported, on Linux, macOS and Windows.",
        ) from None
    names = [f"+{name}" for name in features.features]
    if "avx2" in features.features:
        names.append("+fast-gather")  # else a gather of AVX2 becomes a branch for each lane
    llvm = _llvm()
    target = llvm.Target.from_triple(triple).create_target_machine(
        cpu=cpu, features=",".join(names), opt=level, reloc="pic", codemodel="small", jit=False
    )
    target.set_asm_verbosity(annotated)
    return _Machine(target, f'target datalayout = "{target.target_data}"\ntarget triple = "{triple}"\n')


def _optimise(llvm: Any, module: Any, target: Any, effort: Effort, text: str) -> None:
    if effort is Effort.QUICK or (effort is Effort.LIGHT and _SLOT not in text):
        return
    with ExitStack() as stack:
        tuning = stack.enter_context(closing(llvm.create_pipeline_tuning_options(_LEVEL[effort])))
        tuning.loop_vectorization = tuning.slp_vectorization = tuning.loop_interleaving = False
        builder = stack.enter_context(closing(llvm.create_pass_builder(target, tuning)))
        if effort is Effort.FULL:
            passes = stack.enter_context(closing(builder.getModulePassManager()))
        else:
            passes = stack.enter_context(closing(llvm.create_new_module_pass_manager()))
            passes.add_sroa_pass()
        passes.run(module, builder)


def _generate(text: str, features: CpuFeatures, effort: Effort, system: str, form: str, annotated: bool = False) -> Any:
    if "\0" in text:  # at which LLVM would stop to read
        raise KernelCompileFailed(backend=BACKEND, compiler_log="its LLVM IR holds a zero byte")
    llvm = _llvm()
    machine = _machine(features, _LEVEL[effort], system, annotated)
    with ExitStack() as stack:
        context = stack.enter_context(closing(llvm.create_context()))
        try:
            module = stack.enter_context(closing(llvm.parse_assembly(machine.header + text, context)))
            module.verify()
        except RuntimeError as error:
            raise KernelCompileFailed(backend=BACKEND, compiler_log=str(error).strip()) from None
        _optimise(llvm, module, machine.target, effort, text)
        return getattr(machine.target, form)(module)


def compile_object(text: str, features: CpuFeatures, effort: Effort, *, system: str = sys.platform) -> bytes:
    """Returns the relocatable object of one module: position-independent, small code model, ELF.

    ``text`` is LLVM IR without target lines, which are added for ``features`` and ``system`` (a value of
    ``sys.platform``).  Other processors than this machine's are allowed.  Raises ``KernelCompileFailed`` with LLVM's
    message if the text is malformed or breaks LLVM's rules, and ``BackendUnavailable`` without llvmlite.
    """
    return bytes(undisturbed(_generate, text, features, effort, system, "emit_object"))


def assembly(
    text: str, features: CpuFeatures, effort: Effort, *, system: str = sys.platform, annotated: bool = False
) -> str:
    """Returns the assembly text of the code that ``compile_object`` would make.  Raises the same errors.

    ``annotated`` adds LLVM's comments: blocks and loops, and the place in the source where the text names one by
    ``!dbg``.  Such text needs a compile unit of the kind ``DebugDirectivesOnly``, so that nothing but ``.loc`` lines is
    added to the assembly.
    """
    return str(undisturbed(_generate, text, features, effort, system, "emit_assembly", annotated))


# ---------------------------------------------------------------- LLVM's loader
def jit_compiler(features: CpuFeatures) -> Any:
    """Returns a new LLJIT of LLVM for this machine.  Raises ``BackendUnavailable`` without llvmlite."""
    return _llvm().create_lljit_compiler(_machine(features, 2, sys.platform).target)


def link_object(
    jit: Any, name: str, data: bytes, names: Iterable[str], symbols: Mapping[str, int]
) -> tuple[Any, dict[str, int]]:
    """Loads an object into ``jit`` as the library ``name``, which has to be new in it.

    Returns LLVM's owner of the code, whose ``close`` unmaps it, and the addresses of ``names``.  ``symbols`` has
    addresses that the object may refer to, beside those of the process.  Raises ``RuntimeError`` with LLVM's message.
    """
    builder = _llvm().JITLibraryBuilder().add_object_img(data).add_current_process()
    for symbol, address in symbols.items():
        builder.import_symbol(symbol, address)
    exported = tuple(names)
    for symbol in exported:
        builder.export_symbol(symbol)
    tracker = builder.link(jit, name)
    return tracker, {symbol: tracker[symbol] for symbol in exported}
