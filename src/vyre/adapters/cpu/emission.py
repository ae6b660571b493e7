"""The emission facet of the CPU backend: programs as LLVM IR, or as the assembly that LLVM makes of it.

Comments name the place in the user's source from which the code after them comes.  LLVM IR needs no compiler; assembly
is made by LLVM, for the processor of this machine, by the pipeline that compiles the kernel first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from vyre.adapters.cpu.decisions.vector_width import vector_width
from vyre.adapters.cpu.ids import CPU
from vyre.adapters.cpu.native.features import AARCH64, host
from vyre.domain.device import EngineKind
from vyre.domain.errors import UnsupportedFeature
from vyre.domain.frozen import frozen
from vyre.domain.geometry import check_limits
from vyre.domain.ir.stmt import IndirectDispatch, walk_statements
from vyre.domain.op_ids import INDIRECT_FIX
from vyre.domain.printable import one_line
from vyre.domain.validation.validator import check_rules
from vyre.policies.journal import decide
from vyre.ports.emission import EmissionOptions

if TYPE_CHECKING:
    from vyre.adapters.cpu.llvm.captures import Capture
    from vyre.adapters.cpu.llvm.emit import EmittedCode
    from vyre.domain.artifact_key import ArtifactKey
    from vyre.domain.ir.expr import Literal
    from vyre.domain.ir.program import Program
    from vyre.domain.specialization import SpecMap

TARGET: Final = "cpu"
LLVM: Final = "llvm"
ASSEMBLY: Final = "asm"
FORMAT: Final = 1
FIRST_BUFFER_WORD: Final = 6
"""The word of a kernel's frame with the address of the first buffer."""


@frozen
class CpuModule:
    """A program as code for the CPU; ``text`` is written in ``form``."""

    text: str
    form: str
    program: Program
    code: EmittedCode
    target: str = TARGET

    def to_json(self) -> dict[str, Any]:
        """Returns the document of ``vyre emit --json``.

        Each kernel is called as ``entry(frame, begin, end, scratch)`` for the workgroups from ``begin`` to ``end``.  A
        buffer is given by two 64-bit words of the frame, its address and its number of elements.  ``scratch`` has
        ``scratch_bytes`` bytes and, for each of ``captures``, ``lanes`` times the least of ``most``, unless that is
        null, and of the bytes of ``buffers``.
        """
        features = host()
        names = [buffer.name for buffer in self.program.abi_buffers]
        return {
            "format": FORMAT,
            "target": self.target,
            "form": self.form,
            "text": self.text,
            "architecture": features.arch,
            "features": list(features.features),
            "lanes": self.code.lanes,
            "workgroup": list(self.program.workgroup_size),
            "buffers": [
                {
                    "name": buffer.name,
                    "binding": buffer.binding,
                    "dtype": buffer.element.text,
                    "address_word": FIRST_BUFFER_WORD + 2 * place,
                    "count_word": FIRST_BUFFER_WORD + 2 * place + 1,
                }
                for place, buffer in enumerate(self.program.abi_buffers)
            ],
            "kernels": [
                {
                    "entry": kernel.entry,
                    "scratch_bytes": kernel.scratch_bytes,
                    "captures": [_capture_json(capture, names) for capture in kernel.captures],
                    "trap_tags": list(kernel.trap_tags),
                }
                for kernel in self.code.kernels
            ],
        }


def _capture_json(capture: Capture, names: Sequence[str]) -> dict[str, Any]:
    return {"lanes": capture.lanes, "buffers": [names[slot] for slot in capture.slots], "most": capture.most}


class CpuEmission:
    """``CodeEmission`` for the CPU.  The emitter is imported when the first program is emitted, LLVM for assembly."""

    __slots__ = ()

    @property
    def targets(self) -> tuple[str, ...]:
        """Returns ``cpu``, the processor of this machine."""
        return (TARGET,)

    @property
    def default_target(self) -> str:
        """Returns ``cpu``."""
        return TARGET

    @property
    def forms(self) -> tuple[str, ...]:
        """Returns ``llvm`` and ``asm``."""
        return (LLVM, ASSEMBLY)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Returns nothing: kernels rely on no facts about a launch."""
        return ()

    @property
    def optimizes(self) -> EngineKind:
        """Returns the kind of engine of code by LLVM."""
        return EngineKind.NATIVE

    def emit(self, program: Program, options: EmissionOptions, spec: Mapping[str, Literal], /) -> CpuModule:
        """Implements ``CodeEmission.emit``; raises ``BackendUnavailable`` for assembly without llvmlite."""
        from vyre.adapters.cpu.llvm.emit import emit
        from vyre.adapters.cpu.llvm.options import EmitOptions
        from vyre.adapters.cpu.llvm.program_facts import vector_inputs

        _refuse(program)
        features = host()
        width = decide(None, vector_width, vector_inputs(program, features))
        chosen = EmitOptions(width.lanes, slow_gathers=features.slow_gathers, located=True)
        chosen = chosen._replace(predicated=features.is_predicated, halves=features.computes_f16)
        code = emit(program, chosen, spec)
        if options.form != ASSEMBLY:
            return CpuModule(located_llvm(code.text), LLVM, program, code)
        from vyre.adapters.cpu.native.compilation import assembly
        from vyre.adapters.cpu.runtime.code import first_choice

        text = assembly(code.text, host(), first_choice(code.text, None))
        return CpuModule(located_assembly(text, host().arch), ASSEMBLY, program, code)

    def keys(self, program: Program, options: EmissionOptions, spec: SpecMap, /) -> tuple[ArtifactKey, ...]:
        """Returns the key of the machine code that most launches on this machine use.

        Launches with a step budget, with large buffers, with copies for atomics or with a grid of several axes may use
        other variants.
        """
        from vyre.adapters.cpu.native.compilation import llvm_version
        from vyre.adapters.cpu.pool.options import default_threads, options_from
        from vyre.adapters.cpu.runtime.artifact_keys import object_keys
        from vyre.adapters.cpu.runtime.variants import VariantInputs, variants_of
        from vyre.adapters.kernel_source import KernelSource
        from vyre.adapters.system import USED_ENVIRONMENT

        _refuse(program)
        settings = options_from(USED_ENVIRONMENT.get())
        threads = settings.threads or default_threads(settings.affinity)
        usual = variants_of(VariantInputs(program, host(), threads, passes=options.passes), None).usual
        compiler = llvm_version() or ""
        return (object_keys(host(), usual, compiler).key(program, KernelSource.of(program, spec).spec),)


def _refuse(program: Program) -> None:
    """Raises ``InvalidProgram`` or ``UnsupportedFeature`` for a program that no launch would run."""
    from vyre.adapters.cpu.runtime.pipeline import launch_limits

    check_rules(program).raise_if_invalid()
    check_limits((1, 1, 1), program.workgroup_size, launch_limits(CPU))
    if any(isinstance(stmt, IndirectDispatch) for stmt in walk_statements(program.body)):
        raise UnsupportedFeature(feature="indirect dispatch", backend=CPU, fix=INDIRECT_FIX)


# ---------------------------------------------------------------- places
_NODE: Final = re.compile(r"(!\d+) = (?:distinct )?!DI(\w+)\((.*)\)$")
_PLACE: Final = re.compile(r",? !dbg (!\d+)")
_DESCRIBES_PLACES: Final = re.compile(r'!llvm\.(dbg|module\.flags)|!\d+ = !\{i32 2, !"Debug Info Version"')


def located_llvm(text: str) -> str:
    """Returns LLVM IR with a comment where the place in the source changes, instead of descriptions for debuggers."""
    lines = text.splitlines()
    places = _places(lines)
    return "\n".join(_commented(lines, places)) + "\n"


def _places(lines: list[str]) -> dict[str, str]:
    """Returns the place that each node stands for, such as ``kernel.py:12``."""
    nodes = {node[1]: (node[2], node[3]) for line in lines if (node := _NODE.match(line))}
    files = {name: _field(text, "filename") for name, (kind, text) in nodes.items() if kind == "File"}
    scopes = {name: files[_field(text, "file")] for name, (kind, text) in nodes.items() if kind == "LexicalBlockFile"}
    locations: dict[str, str] = {}
    for name, (kind, text) in nodes.items():
        if kind == "Location":
            column = _field(text, "column")
            place = f"{_plain(scopes[_field(text, 'scope')])}:{_field(text, 'line')}"
            locations[name] = place if column == "0" else f"{place}:{column}"
    return locations


def _field(text: str, name: str) -> str:
    match = re.search(rf'\b{name}: (?:"([^"]*)"|([^,]*))', text)
    assert match is not None, text
    return match[2] if match[1] is None else match[1]


def _plain(quoted: str) -> str:
    """Returns a name of a file from LLVM's spelling, in which ``\\0A`` stands for a byte, on one line."""
    data = re.sub(rb"\\([0-9A-F]{2})", lambda m: bytes([int(m[1], 16)]), quoted.encode("ascii"))
    return one_line(data.decode("utf-8", "replace"))


def _commented(lines: list[str], places: Mapping[str, str]) -> Iterator[str]:
    last = ""
    for line in lines:
        if _NODE.match(line) or _DESCRIBES_PLACES.match(line):
            continue
        if line.startswith("define "):
            last = ""
        comment = _PLACE.search(line)
        if comment is None:
            yield line
            continue
        place = places.get(comment[1], "")
        if place and place != last:
            yield f"  ; {place}"
            last = place
        yield line.replace(comment[0], "", 1)


_FILE: Final = re.compile(r'\s*\.file\s+(\d+)\s+"([^"]*)"(?:\s+"([^"]*)")?')
_LOC: Final = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)")
_KERNEL: Final = re.compile(r"_?vyre_kernel_\d+:")
_DROPPED: Final = re.compile(r"\s*\.(file|loc|cfi_\w+)\b|\.L(tmp|func_begin)\d+:$")


def located_assembly(text: str, arch: str) -> str:
    """Returns assembly with a comment where the place in the source changes, instead of directives for debuggers."""
    mark = "//" if arch == AARCH64 else "#"
    files: dict[str, str] = {}
    kept: list[str] = []
    last = ""
    for line in text.splitlines():
        if (directive := _FILE.match(line)) is not None:
            folder, name = (directive[2], directive[3]) if directive[3] is not None else ("", directive[2])
            files[directive[1]] = _octal(str(PurePosixPath(folder, name)))
        elif (directive := _LOC.match(line)) is not None and directive[2] != "0":
            column = f":{directive[3]}" if directive[3] != "0" else ""
            place = f"{files[directive[1]]}:{directive[2]}{column}"
            if place != last:
                kept.append(f"\t{mark} {place}")
                last = place
        elif not _DROPPED.match(line):
            last = "" if _KERNEL.match(line) else last
            kept.append(line)
    return "\n".join(kept) + "\n"


def _octal(quoted: str) -> str:
    """Returns a name of a file from an assembler's spelling, in which ``\\303`` stands for a byte."""
    data = re.sub(rb"\\([0-7]{3})", lambda m: bytes([int(m[1], 8)]), quoted.encode("utf-8"))
    return one_line(data.decode("utf-8", "replace"))
