"""The state of the kernel being written, which all parts of the emitter share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from vyre.adapters.cuda.ptx.abi import CONTROL, MAILBOX, inlined_uniforms, pointer_bindings, uses_table
from vyre.adapters.cuda.ptx.facts import Assumptions, Facts
from vyre.adapters.cuda.ptx.functions import FunctionWriter
from vyre.adapters.cuda.ptx.integer import Fences, IntegerWriter
from vyre.adapters.cuda.ptx.mailbox_layout import Descriptor
from vyre.adapters.cuda.ptx.memory_layout import SharedLayout
from vyre.adapters.cuda.ptx.operands import Address, Immediate, Register, Symbol, Word, hexadecimal
from vyre.adapters.cuda.ptx.options import EmitOptions
from vyre.adapters.cuda.ptx.values import Value
from vyre.adapters.cuda.ptx.writer import Writer
from vyre.domain.analysis.copy_spans import CopySpans
from vyre.domain.analysis.wide_access import WideGroup
from vyre.domain.cached import cached_property
from vyre.domain.grid_sync import hidden_control
from vyre.domain.ir.expr import Literal
from vyre.domain.ir.program import Buffer, Program
from vyre.domain.ir.stmt import Assign, AsyncLoad, AsyncStore, Loop, walk_statements
from vyre.domain.scoped_names import ScopedNames
from vyre.domain.source_location import SourceLocation
from vyre.policies.journal import DecisionSink

AXES: Final = "xyz"
WARP: Final = 32
_ALL_LANES: Final = Immediate("0xFFFFFFFF")


class Copy(NamedTuple):
    """A start of an asynchronous copy, and its registers: a 64-bit byte offset, a number of bytes, and the address of a
    local array that keeps the bytes.

    ``at_once``: the copy is made at its start.
    """

    stmt: AsyncLoad | AsyncStore
    start: Register
    nbytes: Register
    local: Register | None
    at_once: bool


class Tag(NamedTuple):
    """All starts of a copy under one tag, each with its number, by the identity of its statement.

    The selector holds the number of the start that this lane executed.
    """

    selector: Register
    copies: dict[int, tuple[int, Copy]]


class LoopLooks(Protocol):
    """The looks by which loops of a kernel that stays end when their job is stopped."""

    def counts(self, loop: Loop) -> Register | None:
        """Writes the start of a count of rounds if the lanes of a loop must stay together; returns its register."""

    def look(self, loop: Loop, rounds: Register | None, end: str) -> None:
        """Writes the look at the end of a round of a loop, which jumps to ``end`` if the loop has to end.

        ``rounds`` is what ``counts`` returned for the loop.
        """


class Kernel:
    """One entry: its text so far, the locals in scope, and the parameters that its body needs from the launcher.

    ``sink`` receives the decisions about it.
    """

    def __init__(
        self,
        entry: str,
        program: Program,
        options: EmitOptions,
        spec: Mapping[str, Literal],
        sink: DecisionSink | None,
        *,
        traced: bool = False,
        files: dict[str, int] | None = None,
    ) -> None:
        self.w: Final = Writer(entry, traced=traced, files=files)
        self.program: Final = program
        self.options: Final = options
        self.spec: Final = spec
        self.sink: Final = sink
        self.buffers: Final[Mapping[str, Buffer]] = program.buffers_by_name
        self.inlined: Final = inlined_uniforms(program, options, sink)
        self.facts: Final = Facts(program, options, self.inlined, sink)
        self.assumptions: Final = Assumptions(options.assume)
        self.shared: Final = SharedLayout(program, self.facts.zeroed)
        self.private_arrays: Final[dict[str, Symbol]] = {}
        """The arrays in local memory that hold private buffers, by buffer."""
        self.table: Final = uses_table(program, self.inlined, options, sink)
        self.integers: Final = IntegerWriter(self.w, Fences(self.zero, self.facts.fences))
        self.functions: Final = FunctionWriter(self.w, self.zero)
        self.locals: Final[ScopedNames[Value]] = ScopedNames()
        self.mutable: Final = {s.name for s in walk_statements(program.body) if isinstance(s, Assign)}
        """Names that own a register, because a statement assigns to them."""
        self.mutable_registers: Final[set[Register]] = set()
        self.known: Final[dict[int, Value]] = {}
        """Values of this statement's expression objects that may be shared: see ``expressions.evaluate``."""
        self.atomics = 0
        """The number of atomics written so far."""
        self.loops: Final[list[tuple[str, str]]] = []
        """(label of Continue, label of Break), innermost last."""
        self.wide_loads: Final[dict[int, list[Register]]] = {}
        """Registers of a group of loads, by the identity of the group."""
        self.wide_stores: Final[dict[int, dict[int, Register]]] = {}
        """Values of a group of stores that are stored together, by lane."""
        self._wide_sites: Final[dict[int, list[SourceLocation | None]]] = {}
        """Source locations of the members of a group, by the identity of the group."""
        self.trap_tags: Final[list[str]] = []
        self.copies: Final[dict[str, Tag]] = {}
        """Asynchronous copies by tag."""
        self.uses_zero: bool = False
        self.uses_trap: bool = False
        self.uses_grid_barrier: bool = False
        self.control: Final = hidden_control(program)
        self.end: Final = self.w.label() if options.mailbox else None
        """The label at which lanes that leave the body meet, in a kernel that stays."""
        self.looks: LoopLooks | None = None
        """The looks that loops have in a kernel that stays."""
        self.folded: Final = options.folded
        self.groups: tuple[Register, ...] = ()
        """The index of the workgroup along each axis, in a kernel that stays."""
        self.grid: tuple[Register, ...] = ()
        """The number of workgroups along each axis, in a kernel that stays."""
        self._positions = {buffer.name: index for index, buffer in enumerate(pointer_bindings(program))}
        self._push_positions = {b.name: i for i, b in enumerate(b for b in program.abi_buffers if b.is_push)}

    def site_of(self, group: WideGroup) -> list[SourceLocation | None]:
        """Returns the list of source locations of a group's members, which callers fill as they meet a member."""
        return self._wide_sites.setdefault(id(group), [None] * group.width)

    @cached_property
    def copy_spans(self) -> CopySpans:
        """Returns the asynchronous copies of the program, with what happens while they are pending."""
        return CopySpans(self.program.body)

    # ---- parameters
    def zero(self) -> Register:
        """Returns the opaque zero: a parameter that is always 0, which the assembler cannot know."""
        self.uses_zero = True
        return self.w.once("zero", lambda: self.w.emit("r", "ld.param.u32", Address(Symbol("zero"))))

    def base(self, name: str) -> Register:
        """Returns a register with the address of a binding, or of the hidden buffer of grid loops."""
        if self.control is not None and name == self.control.name:
            return self.parameter_address(CONTROL)
        position = self._positions[name]

        def make() -> Register:
            address = self._record(position, "b64", 0) if self.table else self.parameter_address(f"p{position}")
            return address if not self.table else self.w.emit("rd", "cvta.to.global.u64", address)

        return self.w.once(f"p{position}", make)

    def parameter_address(self, parameter: str) -> Register:
        """Returns a register with the global address that an 8-byte parameter holds."""

        def make() -> Register:
            address = self.w.emit("rd", "ld.param.u64", Address(Symbol(parameter)))
            address = self.w.emit("rd", "cvta.to.global.u64", address)
            if self.end is None or parameter == MAILBOX:
                return address
            return self.w.emit("rd", "add.u64", address, self.arena_offset())

        return self.w.once(f"&{parameter}", make)

    def described(self, field: int) -> Register:
        """Returns an 8-byte field of the description of the mailbox."""
        where = Address(self.parameter_address(MAILBOX), field)
        return self.w.once(f"mailbox {field}", lambda: self.w.emit("rd", "ld.global.nc.u64", where))

    def arena_offset(self) -> Register:
        """Returns the offset of this block's memory for jobs from that of block 0."""

        def make() -> Register:
            number = self.w.emit("r", "mov.u32", Register("%ctaid.x"))
            wide = self.w.emit("rd", "cvt.u64.u32", number)
            return self.w.emit("rd", "mul.lo.u64", wide, self.described(Descriptor.ARENA_STRIDE))

        return self.w.once("arena", make)

    def leave(self) -> None:
        """Writes the end of a lane's work."""
        self.w.line("ret;" if self.end is None else f"bra {self.end};")

    def length(self, name: str) -> Word:
        """Returns the number of elements: an int if it is static, else a register."""
        buffer = self.buffers[name]
        if buffer.count:
            return buffer.count
        position = self._positions[name]
        if self.table:
            return self.w.once(f"n{position}", lambda: self._record(position, "b32", 8))
        return self.w.once(f"n{position}", lambda: self.w.emit("r", "ld.param.u32", Address(Symbol(f"n{position}"))))

    def _record(self, position: int, suffix: str, field: int) -> Register:
        table = self.parameter_address("table")
        kind = "rd" if suffix == "b64" else "r"
        return self.w.emit(kind, f"ld.global.nc.{suffix}", Address(table, 16 * position + field))

    def uniform_parameter(self, name: str) -> Symbol:
        """Returns the name of the parameter that holds an inlined uniform buffer."""
        return Symbol(f"u{self._positions[name]}")

    def push_parameter(self, name: str) -> Symbol:
        """Returns the name of the parameter that holds a scalar of the program."""
        return Symbol(f"s{self._push_positions[name]}")

    # ---- lanes
    def group_id(self, axis: int) -> Register:
        """Returns the index of the workgroup along an axis."""
        if self.folded:
            return self.w.once(f"group{axis}", lambda: self._unfolded(axis))
        return self.groups[axis] if self.groups else self.w.special(f"%ctaid.{AXES[axis]}")

    def group_count(self, axis: int) -> Register:
        """Returns the number of workgroups along an axis."""
        if self.folded:
            return self.w.once(f"grid{axis}", lambda: self.w.emit("r", "ld.param.u32", Address(Symbol(f"grid{axis}"))))
        return self.grid[axis] if self.grid else self.w.special(f"%nctaid.{AXES[axis]}")

    def _unfolded(self, axis: int) -> Register:
        group = self.w.special("%ctaid.x")
        for passed in range(axis):
            group = self.w.emit("r", "div.u32", group, self.group_count(passed))
        return group if axis == 2 else self.w.emit("r", "rem.u32", group, self.group_count(axis))

    def leave_empty_grid(self) -> None:
        """Writes the end of all lanes of a folded grid without workgroups, which is launched as one."""

        def leave() -> Register:
            none = self.has_no_groups()
            self.w.line(f"@{none} ret;")
            return none

        self.w.once("no groups", leave)

    def has_no_groups(self) -> Register:
        """Returns a predicate: whether an axis of the grid has no workgroups."""
        x, y, z = map(self.group_count, range(3))
        least = self.w.emit("r", "min.u32", self.w.emit("r", "min.u32", x, y), z)
        return self.w.emit("p", "setp.eq.u32", least, 0)

    @property
    def block(self) -> tuple[int, int, int]:
        """Returns the number of lanes of a workgroup along x, y, z."""
        return self.program.workgroup_size

    @property
    def threads(self) -> int:
        """Returns the number of lanes of a workgroup."""
        x, y, z = self.block
        return x * y * z

    def local_id(self, axis: int) -> Word:
        """Returns the lane's index in the workgroup along an axis."""
        return self.w.special(f"%tid.{AXES[axis]}") if self.block[axis] > 1 else 0

    def global_id(self, axis: int) -> Register:
        """Returns the lane's index in the grid along an axis."""
        group = self.group_id(axis)
        if self.block[axis] == 1:
            return group
        return self.w.once(
            f"gid{axis}", lambda: self.w.emit("r", "mad.lo.u32", group, self.block[axis], self.local_id(axis))
        )

    def linear_local_id(self) -> Word:
        """Returns the lane's index in the workgroup with x fastest, as the hardware packs lanes into warps."""
        x, y, z = self.block
        if y == z == 1:
            return self.local_id(0)

        def make() -> Register:
            rows = self.local_id(1)
            if z > 1:
                rows = self.w.emit("r", "mad.lo.u32", self.local_id(2), y, rows)
            assert isinstance(rows, Register), "there is more than one row"
            if x == 1:
                return rows
            return self.w.emit("r", "mad.lo.u32", rows, x, self.local_id(0))

        return self.w.once("linear", make)

    def lane(self) -> Word:
        """Returns the lane's index in the subgroup."""
        linear = self.linear_local_id()
        if self.threads <= WARP or isinstance(linear, int):
            return linear
        return self.w.once("lane", lambda: self.w.emit("r", "and.b32", linear, WARP - 1))

    def lanes(self) -> Word:
        """Returns the lanes of the subgroup: 32, or fewer in the last one; an int unless it differs between
        subgroups.
        """
        tail = self.threads % WARP
        if not tail:
            return WARP
        if self.threads < WARP:
            return tail

        def make() -> Register:
            last = self.w.emit("p", "setp.ge.u32", self.linear_local_id(), self.threads - tail)
            return self.w.emit("r", "selp.b32", tail, WARP, last)

        return self.w.once("lanes", make)

    def member_mask(self) -> Register | Immediate:
        """Returns the mask of the lanes that exist, as a literal or one select.

        The active mask is never used, because it depends on scheduling.
        """
        tail = self.threads % WARP
        if not tail:
            return _ALL_LANES
        if self.threads < WARP:
            return hexadecimal((1 << tail) - 1)

        def make() -> Register:
            last = self.w.emit("p", "setp.ge.u32", self.linear_local_id(), self.threads - tail)
            return self.w.emit("r", "selp.b32", hexadecimal((1 << tail) - 1), _ALL_LANES, last)

        return self.w.once("mask", make)
