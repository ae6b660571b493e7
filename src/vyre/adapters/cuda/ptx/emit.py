"""``emit`` returns a program as PTX text, with everything that a launcher must know.

The text is a pure function of program, options and specialization values: the same input gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import Final, NamedTuple

from vyre.adapters.cuda.decisions.ptx_target import Feature, TargetInputs, select_target
from vyre.adapters.cuda.ptx import abi, barriers, halves, memory
from vyre.adapters.cuda.ptx.context import Kernel
from vyre.adapters.cuda.ptx.kernel import EmittedKernel, EmittedModule
from vyre.adapters.cuda.ptx.mailbox import BOARD, Mailbox
from vyre.adapters.cuda.ptx.mailbox_layout import Board
from vyre.adapters.cuda.ptx.memory import shared_symbol
from vyre.adapters.cuda.ptx.memory_layout import ALIGNMENT
from vyre.adapters.cuda.ptx.options import DEFAULT_OPTIONS, PORTABLE_PARAMETER_BYTES, EmitOptions
from vyre.adapters.cuda.ptx.sites import Area, KernelSites
from vyre.adapters.cuda.ptx.statements import write_body
from vyre.domain.errors import UnsupportedFeature
from vyre.domain.grid_sync import has_grid_barriers, plan_grid_sync, plan_programs
from vyre.domain.ir.buffers import element_of
from vyre.domain.ir.expr import Literal
from vyre.domain.ir.location_table import table_of
from vyre.domain.ir.program import Program
from vyre.domain.native_rounds import with_native_rounds
from vyre.domain.validation.validator import check_rules
from vyre.policies.journal import DecisionSink, decide

EMITTER_VERSION: Final = 1
HEADER_LINES: Final = 4
"""The number of lines of a module before its first entry, and before the names of the user's files."""
MAX_THREADS: Final = 1024
MAX_BLOCK: Final = (1024, 1024, 64)
_NO_SPEC: Final[Mapping[str, Literal]] = {}


def emit(
    program: Program,
    options: EmitOptions = DEFAULT_OPTIONS,
    spec: Mapping[str, Literal] = _NO_SPEC,
    sink: DecisionSink | None = None,
) -> EmittedModule:
    """Returns a module with one kernel, or one per part if grid barriers are split.

    ``spec`` holds values of specialization constants; missing ones have their defaults.  ``sink`` receives the
    decisions. Raises ``InvalidProgram`` with the report, and ``UnsupportedFeature`` for a program that the target
    cannot run.
    """
    files: dict[str, int] = {}
    written = _written(program, options, spec, sink, files)
    kernels = tuple(each.kernel for each in written)
    large = any(kernel.parameter_bytes > PORTABLE_PARAMETER_BYTES for kernel in kernels)
    features = frozenset({Feature.LARGE_PARAMETERS} if large else ())
    target = decide(sink, select_target, TargetInputs(options.target, features))
    header = f".version {target.version_text}\n.target {target.text}\n.address_size 64\n"
    text = "\n".join([header, *_file_lines(files), *(each.text for each in written)])
    return EmittedModule(text, target.text, target.version_text, kernels)


def sites(
    program: Program, options: EmitOptions = DEFAULT_OPTIONS, spec: Mapping[str, Literal] = _NO_SPEC
) -> dict[str, KernelSites]:
    """Returns, by entry, the source line that each line of the text of ``emit`` was written for.

    The program is written again for this: the caller has a fault to explain, and its text may come from a store.
    Raises as ``emit`` does.
    """
    files: dict[str, int] = {}
    written, kernels = _written(program, options, spec, None, files, traced=True), {}
    first = HEADER_LINES + len(files) + 1
    for text, kernel, k, ahead in written:
        starts = list(accumulate((line.count("\n") + 1 if line else 0 for line in k.w.body), initial=first + ahead))
        bindings = tuple((b.name, element_of(b).size) for b in abi.pointer_bindings(program))
        shared = [Area(name, offset, element_of(k.buffers[name]).size) for name, offset in k.shared.offsets.items()]
        kernels[kernel.entry] = KernelSites(
            tuple(starts[position] for position, _ in k.w.marks),
            tuple(site for _, site in k.w.marks),
            bindings,
            tuple(sorted(shared, key=lambda area: area.start)),
        )
        first += text.count("\n") + 1
    return kernels


def entry_name(program: Program, options: EmitOptions, spec: Mapping[str, Literal]) -> str:
    """Returns ``vy_`` and 16 hexadecimal digits of a digest of everything that the text depends on."""
    from blake3 import blake3

    hasher = blake3(program.digest)
    values = sorted((name, value.dtype.text, value.bits) for name, value in spec.items())
    assumed = sorted(assumption.value for assumption in options.assume)
    facts = (options.target, options.native_grid_sync, options.pointer_table, options.parameter_limit)
    if options.located:
        hasher.update(f"located {table_of(program)}".encode())
    if options.mailbox or options.folded:
        hasher.update(b"mailbox" if options.mailbox else b"folded")
    hasher.update(repr((EMITTER_VERSION, facts, options.assembler, options.switches, assumed, values)).encode())
    return f"vy_{hasher.hexdigest()[:16]}"


def _file_lines(files: Mapping[str, int]) -> list[str]:
    """Returns the lines that number the user's files.

    PTX has no escapes in the names of files: characters that it cannot have there are written as in a URL.
    """
    from urllib.parse import quote

    return [f'.file {number} "{quote(name, safe="/ :@+=,~")}"' for name, number in files.items()]


def _check_target(program: Program, options: EmitOptions) -> None:
    x, y, z = program.workgroup_size
    if x * y * z > MAX_THREADS or any(n > most for n, most in zip((x, y, z), MAX_BLOCK, strict=True)):
        raise UnsupportedFeature(
            feature=f"a workgroup of {x} x {y} x {z} lanes",
            backend="cuda",
            fix=f"use at most {MAX_THREADS} lanes, {MAX_BLOCK} along the axes.",
        )


class _Written(NamedTuple):
    """The text of an entry, and the kernel that it was written from; ``ahead`` lines of it precede the body."""

    text: str
    kernel: EmittedKernel
    made: Kernel
    ahead: int


def _written(
    program: Program,
    options: EmitOptions,
    spec: Mapping[str, Literal],
    sink: DecisionSink | None,
    files: dict[str, int],
    *,
    traced: bool = False,
) -> list[_Written]:
    check_rules(program).raise_if_invalid()
    _check_target(program, options)
    native = options.native_grid_sync
    if options.mailbox and has_grid_barriers(program):
        raise UnsupportedFeature(
            feature="a barrier or a loop of the whole grid in a kernel that stays",
            backend="cuda",
            fix="dispatch the program.",
        )
    parts = (with_native_rounds(program),) if native else tuple(plan_programs(plan_grid_sync(program)))
    name = entry_name(program, options, spec)
    return [
        _kernel(name if len(parts) == 1 else f"{name}_s{number}", part, options, spec, sink, files, traced=traced)
        for number, part in enumerate(parts)
    ]


def _kernel(
    entry: str,
    program: Program,
    options: EmitOptions,
    spec: Mapping[str, Literal],
    sink: DecisionSink | None,
    files: dict[str, int],
    *,
    traced: bool,
) -> _Written:
    k = Kernel(entry, program, options, spec, sink, traced=traced, files=files if options.located else None)
    if options.folded:
        k.leave_empty_grid()
    k.looks = mailbox = Mailbox(k) if options.mailbox else None
    head = [] if mailbox is None else mailbox.begin()
    memory.begin_private(k)
    barriers.zero_shared(k)
    write_body(k, program.body)
    if mailbox is not None:
        mailbox.end()
    halves.drop_unread(k.w)
    features = abi.Features(
        trap=k.uses_trap,
        barrier=k.uses_grid_barrier,
        zero=k.uses_zero,
        control=k.control,
        mailbox=mailbox is not None,
        folded=options.folded,
    )
    parameters = abi.layout(program, k.inlined, table=k.table, features=features)
    x, y, z = program.workgroup_size
    w = k.w
    shared: list[str] = []
    if k.shared.nbytes:
        size = "" if k.shared.dynamic else str(k.shared.nbytes)
        shared.append(
            f"{'.extern ' if k.shared.dynamic else ''}.shared .align {ALIGNMENT} .b8 {shared_symbol(k)}[{size}];"
        )
    board = [] if mailbox is None else [f".shared .align {ALIGNMENT} .b8 {BOARD}[{Board.NBYTES}];"]
    lines = [*w.module_scope, *(shared if k.shared.dynamic else ())]
    lines.append(f".visible .entry {entry}(")
    lines.append(",\n".join(f"\t{line}" for line in abi.declaration(parameters)))
    lines += [")", f".reqntid {x}, {y}, {z}", "{"]
    before = [*w.declarations(), *w.arrays, *(() if k.shared.dynamic else shared), *board, *head, *w.prologue]
    ahead = sum(line.count("\n") + 1 for line in (*lines, *before))
    lines += [line if line.endswith(":") else f"\t{line}" for line in (*before, *filter(None, w.body), "ret;")]
    lines.append("}\n")
    kernel = EmittedKernel(
        entry,
        program.workgroup_size,
        parameters.parameters,
        parameters.nbytes,
        (0 if k.shared.dynamic else k.shared.nbytes) + (0 if mailbox is None else Board.NBYTES),
        k.shared.nbytes if k.shared.dynamic else 0,
        k.uses_grid_barrier,
        k.assumptions.made,
        tuple(k.trap_tags),
    )
    return _Written("\n".join(lines), kernel, k, ahead)
