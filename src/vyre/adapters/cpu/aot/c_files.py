"""Entry points of bundles for programs in C: a header, a source and objects, which need neither Python nor vyre.

A function of C fills the frame of a kernel as ``runtime/launch.py`` does, takes the objects of the highest level that
the processor has, and runs all workgroups on the thread that calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from vyre.adapters.cpu.aot.choice import codes_for_c
from vyre.adapters.cpu.llvm.captures import Capture
from vyre.adapters.cpu.native.features import AARCH64, host
from vyre.adapters.cpu.runtime.artifact_keys import features_of
from vyre.adapters.cpu.runtime.stored_form import KernelLayout, decode_layout
from vyre.adapters.host.stored_code import layout_in
from vyre.domain.binding import plan_bindings
from vyre.domain.errors import InvalidConfig, UnsupportedFeature
from vyre.domain.grid_sync import has_grid_loops
from vyre.domain.ir.buffers import Buffer
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import ScalarType
from vyre.domain.printable import shown
from vyre.domain.validation.validator import without_calls
from vyre.ports.bundles import BundledCode

MOST_BYTES: Final = (1 << 31) - 1
"""The largest buffer in bytes that the functions take, for which offsets of 32 bits suffice."""
_TYPES: Final[Mapping[ScalarType, str]] = {
    ScalarType.F64: "double",
    ScalarType.F32: "float",
    ScalarType.F16: "uint16_t",
    ScalarType.BF16: "uint16_t",
    ScalarType.BOOL: "uint32_t",
    ScalarType.BOOL8: "uint8_t",
}
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_WORDS: Final = frozenset(
    (
        *("auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern"),
        *("float", "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return", "short", "signed"),
        *("sizeof", "static", "struct", "switch", "typedef", "union", "unsigned", "void", "volatile", "while", "main"),
        *("groups", "trap", "frame", "control", "status", "saved", "level", "least", "run", "kernel"),
    )
)
"""Words of C and of the functions themselves, which name no parameter."""


class Argument(NamedTuple):
    """A parameter of a function in C for one buffer; ``length`` is an expression for its number of elements."""

    buffer: Buffer
    name: str
    length: str
    is_input: bool

    @property
    def type(self) -> str:
        """Returns the type of an element in C."""
        element = self.buffer.element
        assert isinstance(element, ScalarType), "validated"
        named = _TYPES.get(element)
        return named or f"{'' if element.is_signed else 'u'}int{8 * element.size}_t"

    @property
    def nbytes(self) -> str:
        """Returns an expression for its number of bytes."""
        return f"{self.length} * sizeof({self.type})"

    def declared(self) -> Iterator[str]:
        """Yields its parameters."""
        if self.buffer.is_push:
            yield f"{self.type} {self.name}"
            return
        yield f"{'' if self.buffer.is_returned else 'const '}{self.type} *{self.name}"
        if self.length == f"{self.name}_count":
            yield f"uint64_t {self.length}"


def c_files(name: str, entries: Mapping[str, Program]) -> dict[str, bytes]:
    """Returns the content of ``name.h``, ``name.c`` and an object for each entry point and level, by their names.

    Entry points without code in loaded bundles are left out; it is empty if none has any.  Raises
    ``UnsupportedFeature`` for a program with a grid loop, and ``InvalidConfig`` for names that are none in C.
    """
    functions: list[Function] = []
    for entry, program in entries.items():
        plain = without_calls(program)
        codes = codes_for_c(plain)
        if not codes:
            continue
        if has_grid_loops(plain):
            raise UnsupportedFeature(
                feature=f"a grid loop in {shown(entry)}", backend="cpu", fix="leave it out, or call it from Python."
            )
        functions.append(Function(_c_name(entry), plain, codes))
    if not functions:
        return {}
    guard = f"{_c_name(name).upper()}_H"
    prototypes = "".join(f"\n{function.comment()}{function.prototype()};\n" for function in functions)
    header = _HEADER.format(guard=guard, prototypes=prototypes)
    source = _SOURCE.format(name=name, supports=_supports()) + "".join(function.text() for function in functions)
    objects = {
        f"{name}-{function.name}-{code.target}.o": code.artifact.code
        for function in functions
        for code in function.codes
    }
    return {f"{name}.h": header.encode(), f"{name}.c": source.encode(), **objects}


class Function:
    """A function in C for one entry point; ``codes`` are those of its levels, the highest first."""

    def __init__(self, name: str, program: Program, codes: Sequence[BundledCode]) -> None:
        self.name: Final = name
        self.codes: Final = tuple(codes)
        self._program = program
        self._arguments: Final = _arguments(program)

    def prototype(self) -> str:
        """Returns its declaration without a semicolon."""
        parameters = [text for argument in self._arguments for text in argument.declared()]
        return f"vyre_status {self.name}({', '.join([*parameters, 'const uint32_t groups[3]', 'vyre_trap *trap'])})"

    def comment(self) -> str:
        """Returns what a caller must know of this function."""
        x, y, z = self._program.workgroup_size
        outputs = [argument.name for argument in self._arguments if not argument.is_input]
        zeroed = f"; outputs that are zeroed first: {', '.join(outputs)}" if outputs else ""
        return f"/* workgroups of {x} x {y} x {z} lanes{zeroed} */\n"

    def text(self) -> str:
        """Returns its definition, behind those of its tables."""
        declarations, levels = [], []
        for number, code in enumerate(self.codes):
            kernels = layout_in(code, decode_layout).kernels
            declarations += [f"void {kernel.entry}(uint64_t *, int64_t, int64_t, void *);" for kernel in kernels]
            tags = ", ".join(_quoted(tag) for kernel in kernels for tag in kernel.trap_tags) or "0"
            declarations.append(f"static const char *const {self.name}_tags_{number}[] = {{{tags}}};")
            lines = [self._run(kernel, number, first) for kernel, first in zip(kernels, _firsts(kernels), strict=True)]
            body = "\n".join(lines)
            features = " && ".join(f'VYRE_HAS("{each}")' for each in features_of(code.key).features) or "1"
            levels.append(f"    if (!level && {features}) {{\n        level = 1;\n{body}\n    }}")
        x, y, _ = self._program.workgroup_size
        words = [f"(uintptr_t){'&' * a.buffer.is_push}{a.name}, {a.length}" for a in self._arguments]
        zeroed = [f"    memset({a.name}, 0, {a.nbytes});" for a in self._arguments if not a.is_input]
        sizes = [f"{a.length} > {MOST_BYTES}u / sizeof({a.type})" for a in self._arguments if not a.buffer.count]
        return _FUNCTION.format(
            declarations="\n".join(declarations),
            prototype=self.prototype(),
            words=", ".join(["groups[0], groups[1], groups[2], (uintptr_t)&control, 0, 0", *words]),
            too_large=" || ".join(sizes) or "0",
            zeroed="\n".join(zeroed),
            levels="\n".join(levels),
            x=x,
            y=y,
        )

    def _run(self, kernel: KernelLayout, level: int, first: int) -> str:
        rooms = [f"{capture.lanes}u * {self._room(capture)}" for capture in kernel.captures]
        nbytes = " + ".join([f"(uint64_t){kernel.scratch_bytes}u", *rooms])
        return (
            f"        if (status == VYRE_OK)\n            status = run({kernel.entry}, frame, {nbytes}, "
            f"{self.name}_tags_{level} + {first});"
        )

    def _room(self, capture: Capture) -> str:
        bounds = [f"(uint64_t)({self._arguments[slot].nbytes})" for slot in capture.slots]
        bounds += [] if capture.most is None else [f"(uint64_t){capture.most}u"]
        text = bounds[0]
        for bound in bounds[1:]:
            text = f"least({text}, {bound})"
        return text


def _firsts(kernels: Sequence[KernelLayout]) -> Iterator[int]:
    """Yields for each kernel the number of tags of those before it."""
    first = 0
    for kernel in kernels:
        yield first
        first += len(kernel.trap_tags)


def _arguments(program: Program) -> list[Argument]:
    names: dict[str, str] = {}
    for buffer in program.abi_buffers:
        name = re.sub(r"[^A-Za-z0-9_]", "_", buffer.name)
        if not _NAME.fullmatch(name) or name in _WORDS:
            name = f"p_{name}"
        while {name, f"{name}_count"} & {*names.values(), *(f"{each}_count" for each in names.values())}:
            name += "_"
        names[buffer.name] = name
    arguments = []
    for binding in plan_bindings(program).bindings:
        buffer = model = binding.buffer
        while not model.count and model.like is not None:
            model = program.buffers_by_name[model.like]
        count = f"{model.count}u" if model.count else f"{names[model.name]}_count"
        arguments.append(Argument(buffer, names[buffer.name], count, binding.input_index is not None))
    return arguments


def _c_name(entry: str) -> str:
    name = re.sub(r"[- .]", "_", entry)
    if not _NAME.fullmatch(name) or name in _WORDS:
        raise InvalidConfig(f"{shown(entry)} is no name of a function in C", fix="give the entry point another name.")
    return name


def _quoted(tag: str) -> str:
    octal = "".join(f"\\{byte:03o}" for byte in tag.encode("utf-8", "surrogatepass"))
    return f'"{tag}"' if tag.isascii() and tag.isprintable() and not {*tag} & {*'"\\?'} else f'"{octal}"'


def _supports() -> str:
    return "1" if host().arch == AARCH64 else "__builtin_cpu_supports(feature)"


_HEADER: Final = """\
/* Functions that vyre compiled.  They run on the thread that calls, need no Python, and link with -lm.

   Loads out of range give zero, stores out of range do nothing, and floats are rounded to the nearest, ties to even,
   with subnormals, whatever mode the caller has set.  Arrays are aligned to their elements, do not overlap, and are
   used by nobody else during a call.  A count is a number of elements, `groups` the number of workgroups along x, y
   and z; lanes behind the last element do what the program says.  f16 and bf16 are passed by their bits. */
#ifndef {guard}
#define {guard}

#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

#ifndef VYRE_STATUS
#define VYRE_STATUS
typedef enum {{
    VYRE_OK = 0,
    VYRE_TRAPPED = 1,       /* a lane trapped, the others ran to their end; `trap` tells about the first one */
    VYRE_NO_CODE = 2,       /* there is no code for this processor */
    VYRE_NO_MEMORY = 3,     /* there was no memory for workgroups */
    VYRE_TOO_LARGE = 4      /* an array has 2^31 bytes or more */
}} vyre_status;

typedef struct {{
    uint64_t global_id[3];
    uint32_t address;
    const char *tag;
}} vyre_trap;
#endif

/* `trap` may be null. */
{prototypes}
#ifdef __cplusplus
}}
#endif
#endif
"""
_SOURCE: Final = """\
#include "{name}.h"

#include <fenv.h>
#include <stdlib.h>
#include <string.h>

#define VYRE_HAS(feature) {supports}

typedef void kernel(uint64_t *frame, int64_t begin, int64_t end, void *scratch);

typedef struct {{
    uint32_t stop, lock;
    uint64_t lane;
    uint32_t address, tag;
    uint64_t budget, unused[4];
}} control_block;

static inline uint64_t least(uint64_t a, uint64_t b) {{ return a < b ? a : b; }}

static vyre_status run(kernel *function, uint64_t *frame, uint64_t scratch_bytes, const char *const *tags) {{
    control_block *control = (control_block *)(uintptr_t)frame[3];
    int64_t groups = (int64_t)(frame[0] * frame[1] * frame[2]);
    void *scratch = 0;
    if (scratch_bytes > SIZE_MAX - 128)
        return VYRE_NO_MEMORY;
    if (scratch_bytes && !(scratch = aligned_alloc(64, (scratch_bytes + 63) / 64 * 64)))
        return VYRE_NO_MEMORY;
    function(frame, 0, groups, scratch);
    free(scratch);
    if (control->lane == UINT64_MAX)
        return VYRE_OK;
    frame[5] = (uintptr_t)tags[control->tag];
    return VYRE_TRAPPED;
}}
"""
_FUNCTION: Final = """
{declarations}

{prototype} {{
    control_block control = {{0, 0, UINT64_MAX, 0, 0, UINT64_MAX, {{0}}}};
    uint64_t frame[] = {{{words}}};
    vyre_status status = VYRE_OK;
    fenv_t saved;
    int level = 0;
    if ({too_large})
        return VYRE_TOO_LARGE;
{zeroed}
    if (!groups[0] || !groups[1] || !groups[2])
        return VYRE_OK;
    fegetenv(&saved);
    fesetenv(FE_DFL_ENV);
{levels}
    fesetenv(&saved);
    if (status == VYRE_TRAPPED && trap) {{
        uint64_t x = (uint64_t)groups[0] * {x}u, y = (uint64_t)groups[1] * {y}u;
        trap->global_id[0] = control.lane % x;
        trap->global_id[1] = control.lane / x % y;
        trap->global_id[2] = control.lane / x / y;
        trap->address = control.address;
        trap->tag = (const char *)(uintptr_t)frame[5];
    }}
    return level ? status : VYRE_NO_CODE;
}}
"""
