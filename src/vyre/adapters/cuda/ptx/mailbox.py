"""Kernels that stay and take jobs from a mailbox, whose words ``mailbox_layout`` describes.

Each block of the launch serves one job at a time.  Its first lane claims a row that is published, all lanes copy its
inputs into the block's own arena and zero the rest, run the body for one workgroup of the job's grid after the other,
and copy the outputs back; then the first lane writes how the job has ended.  Nothing is claimed before it is published,
so that a block may leave at any time without losing a job.

A block leaves when it is told to, and when no block has claimed anything for a while.  The last one writes that it
has left and looks again: either it sees what was published meanwhile, or the host sees that it has left.

A job that is late, or that a host wants stopped, is found out by *looks*: lanes look once in so many rounds of a loop,
and a loop that has looked and seen so ends, as if by ``break``.  Where the program gathers lanes at barriers or in
operations of a subgroup, lanes that run the same rounds decide together, so that nobody waits for one who has left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from vyre.adapters.cuda.ptx.abi import MAILBOX
from vyre.adapters.cuda.ptx.context import Kernel
from vyre.adapters.cuda.ptx.mailbox_layout import ROW_BITS, Board, Control, Descriptor, Entry, Head, Row, State
from vyre.adapters.cuda.ptx.operands import Address, Register, Symbol, hexadecimal
from vyre.domain.analysis.uniformity import Uniformity
from vyre.domain.ir.stmt import Loop

BOARD: Final = Symbol("board")
LONELY_ROUNDS: Final = 1024
"""Rounds of all loops of a lane between two looks of its own."""
JOINT_ROUNDS: Final = 256
"""Rounds of one loop, or workgroups of a job, between two looks that lanes take together."""
NAP_NS: Final = 256
_CHUNK: Final = 16


class Mailbox:
    """Writes what surrounds the body of a kernel that stays, and the looks inside it."""

    def __init__(self, k: Kernel) -> None:
        self._k: Final = k
        self._w: Final = k.w
        self._fields: Final[dict[int, Register]] = {}
        self._fuel: Register | None = None
        self._again = k.w.label()
        self._exit = k.w.label()

    # ------------------------------------------------------------ before the body
    def begin(self) -> list[str]:
        """Returns the lines before the prologue, which is part of the work on each workgroup of a job."""
        lines: list[str] = []
        w, outer = self._w, self._w.line
        w.line = lines.append
        try:
            self._once()
            self._take()
            self._copy_in()
            self._k.groups = tuple(w.emit("r", "mov.b32", 0) for _ in range(3))
            self._visited = w.emit("r", "mov.b32", 0)
            self._left = w.emit("r", "cvt.u32.u64", self._field(Descriptor.REPEATS))
            self._next_group = w.label()
            w.place(self._next_group)
            state = w.emit("r", "ld.volatile.shared.u32", self._board(Board.STATE))
            fine = w.emit("p", "setp.eq.u32", state, 0)
            self._fuel = w.emit("r", "selp.b32", LONELY_ROUNDS, 1, fine)
            w.line(f"@{self._k.has_no_groups()} bra {self._k.end};")
        finally:
            w.line = outer
        return lines

    def _once(self) -> None:
        """Writes what a launch does once: it reads the description of the mailbox."""
        w, k = self._w, self._k
        pointer = w.emit("rd", "ld.param.u64", Address(Symbol(MAILBOX)))
        described = w.emit("rd", "cvta.to.global.u64", pointer)
        for field in range(0, Descriptor.NBYTES, 8):
            self._fields[field] = w.emit("rd", "ld.global.nc.u64", Address(described, field))
        k.grid = tuple(w.emit("r", "cvt.u32.u64", self._fields[Descriptor.GRID + 8 * axis]) for axis in range(3))
        linear = w.emit("r", "mov.u32", Register("%tid.x"))
        for axis, size in ((1, k.block[0]), (2, k.block[0] * k.block[1])):
            if k.block[axis] > 1:
                linear = w.emit(
                    "r", "mad.lo.u32", w.emit("r", "mov.u32", Register(f"%tid.{'xyz'[axis]}")), size, linear
                )
        self._linear = w.emit("rd", "cvt.u64.u32", linear)
        self._follows = w.emit("p", "setp.ne.u32", linear, 0)
        block = w.emit("rd", "cvt.u64.u32", w.emit("r", "mov.u32", Register("%ctaid.x")))
        self._arena = w.emit(
            "rd", "mad.lo.u64", block, self._field(Descriptor.ARENA_STRIDE), self._field(Descriptor.ARENA)
        )

    def _take(self) -> None:
        """Writes how a block takes a job, or leaves: the first lane decides, and tells the others on the board."""
        w, known = self._w, self._w.label()
        head, control = self._field(Descriptor.HEAD), self._field(Descriptor.CONTROL)
        poll, idle, rest, gone = (w.label() for _ in range(4))
        w.place(self._again)
        w.line(f"@{self._follows} bra {known};")
        since, seen = self._now(), w.emit("rd", "mov.b64", hexadecimal(2**64 - 1))
        w.place(poll)
        stop = w.emit("r", "ld.relaxed.sys.global.u32", Address(head, Head.STOP))
        w.jump_if("ne.u32", stop, 0, gone)
        claim = w.emit("rd", "ld.relaxed.gpu.global.u64", Address(control, Control.CLAIM))
        tail = w.emit("rd", "ld.acquire.sys.global.u64", Address(head, Head.TAIL))
        self._entry = w.emit("rd", "shr.u64", claim, ROW_BITS)
        w.jump_if("ge.u64", self._entry, tail, idle)
        self._place = w.emit("rd", "and.b64", self._entry, self._field(Descriptor.MASK))
        entry = w.emit("rd", "mad.lo.u64", self._place, Entry.NBYTES, self._field(Descriptor.ENTRIES))
        rows = w.emit("rd", "ld.relaxed.sys.global.u64", Address(entry, Entry.ROWS))
        count = w.emit("rd", "ld.relaxed.sys.global.u64", Address(entry, Entry.COUNT))
        self._last_row = w.emit("rd", "sub.u64", count, 1)
        number = w.emit("rd", "and.b64", claim, (1 << ROW_BITS) - 1)
        more = w.emit("p", "setp.lt.u64", number, self._last_row)
        following = w.emit("rd", "shl.b64", w.emit("rd", "add.u64", self._entry, 1), ROW_BITS)
        following = w.emit("rd", "selp.b64", w.emit("rd", "add.u64", claim, 1), following, more)
        where = Address(control, Control.CLAIM)
        claimed = w.emit("rd", "atom.relaxed.gpu.global.cas.b64", where, claim, following)
        w.jump_if("ne.u64", claimed, claim, poll)
        row = w.emit("rd", "mad.lo.u64", number, self._field(Descriptor.ROW_NBYTES), rows)
        self._began = self._now()
        deadline = w.emit("rd", "add.u64", self._began, self._field(Descriptor.LIMIT))
        self._post("u64", Board.DEADLINE, deadline)
        nothing = w.emit("r", "mov.b32", 0)
        self._post("u32", Board.STATE, nothing)
        self._post("u32", Board.VERDICT, nothing)
        self._post("u64", Board.ROW, row)
        w.line(f"bra {known};")

        w.place(idle)
        same = w.emit("p", "setp.eq.u64", claim, seen)
        w.line(f"mov.b64 {seen}, {claim};")
        now = self._now()
        w.line(f"@!{same} mov.b64 {since}, {now};")
        waited = w.emit("rd", "sub.u64", now, since)
        w.jump_if("gt.u64", waited, self._field(Descriptor.LEASE), rest)
        w.line(f"nanosleep.u32 {NAP_NS};")
        w.line(f"bra {poll};")

        w.place(rest)
        last = w.emit("r", "sub.u32", w.emit("r", "mov.u32", Register("%nctaid.x")), 1)
        away = w.emit("r", "atom.acq_rel.gpu.global.inc.u32", Address(control, Control.AWAY), last)
        w.jump_if("ne.u32", away, last, gone)
        launches = w.emit("rd", "ld.relaxed.gpu.global.u64", Address(control, Control.LAUNCHES))
        left = w.emit("rd", "add.u64", launches, 1)
        w.line(f"st.relaxed.gpu.global.u64 [{control}+{Control.LAUNCHES}], {left};")
        w.line(f"st.relaxed.sys.global.u64 [{head}+{Head.LEFT}], {left};")
        w.line("fence.sc.sys;")
        tail = w.emit("rd", "ld.relaxed.sys.global.u64", Address(head, Head.TAIL))
        w.jump_if("ge.u64", self._entry, tail, gone)
        w.line(f"st.relaxed.gpu.global.u64 [{control}+{Control.LAUNCHES}], {launches};")
        w.line(f"st.relaxed.sys.global.u64 [{head}+{Head.LEFT}], {launches};")
        w.line(f"st.relaxed.gpu.global.u32 [{control}+{Control.AWAY}], {last};")
        w.line(f"bra {poll};")

        w.place(gone)
        self._post("u64", Board.ROW, w.emit("rd", "mov.b64", 0))
        w.place(known)
        w.line("barrier.sync 0;")
        self._row = w.emit("rd", "ld.shared.u64", self._board(Board.ROW))
        w.jump_if("eq.u64", self._row, 0, self._exit)

    def _copy_in(self) -> None:
        w = self._w
        self._body = w.emit("rd", "add.u64", self._row, Row.BODY)
        nothing = w.emit("r", "mov.b32", 0)
        zeros = f"{{{nothing}, {nothing}, {nothing}, {nothing}}}"
        self._each_chunk(None, Descriptor.UPLOAD_END, lambda offset: self._move(self._arena, self._body, offset))
        self._each_chunk(
            Descriptor.ZERO,
            Descriptor.ZERO_END,
            lambda offset: w.line(f"st.global.v4.b32 [{w.emit('rd', 'add.u64', self._arena, offset)}], {zeros};"),
        )
        w.line("barrier.sync 0;")

    # ------------------------------------------------------------ after the body
    def end(self) -> None:
        """Writes the lines after the body, to the end of the kernel."""
        w, k = self._w, self._k
        assert k.end is not None
        done = w.label()
        w.place(k.end)
        w.line("barrier.sync 0;")
        self._together(self._visited, done)
        for axis in range(3):
            index, size = k.groups[axis], k.grid[axis]
            w.line(f"add.u32 {index}, {index}, 1;")
            w.jump_if("lt.u32", index, size, self._next_group)
            w.line(f"mov.b32 {index}, 0;")
        if k.uses_trap:
            w.jump_if("ne.u32", w.emit("r", "ld.relaxed.gpu.global.u32", Address(self._trap())), 0, done)
        w.line(f"sub.u32 {self._left}, {self._left}, 1;")
        w.jump_if("ne.u32", self._left, 0, self._next_group)
        w.place(done)
        self._each_chunk(Descriptor.READ, Descriptor.READ_END, lambda k: self._move(self._body, self._arena, k))
        w.line("barrier.sync 0;")
        w.line(f"@{self._follows} bra {self._again};")
        state = w.emit("r", "ld.volatile.shared.u32", self._board(Board.STATE))
        if k.uses_trap:
            self._copy_trap(state)
        ended = w.emit("p", "setp.eq.u32", state, 0)
        completed = w.emit("r", "mov.b32", int(State.COMPLETED))
        state = w.emit("r", "selp.b32", completed, state, ended)
        elapsed = w.emit("rd", "sub.u64", self._now(), self._began)
        w.line(f"st.relaxed.sys.global.u64 [{self._row}+{Row.ELAPSED}], {elapsed};")
        w.line("fence.acq_rel.sys;")
        w.line(f"st.release.sys.global.u32 [{self._row}+{Row.STATE}], {state};")
        counts = w.emit("rd", "add.u64", self._field(Descriptor.CONTROL), Control.ROWS)
        counter = w.emit("rd", "mad.lo.u64", self._place, 4, counts)
        last = w.emit("r", "cvt.u32.u64", self._last_row)
        before = w.emit("r", "atom.acq_rel.gpu.global.inc.u32", Address(counter), last)
        w.jump_if("ne.u32", before, last, self._again)
        word = w.emit("rd", "mad.lo.u64", self._place, 8, self._field(Descriptor.ENDS))
        ticket = w.emit("rd", "add.u64", self._entry, 1)
        w.line("fence.acq_rel.sys;")
        w.line(f"st.release.sys.global.u64 [{word}], {ticket};")
        w.line(f"bra {self._again};")
        w.place(self._exit)

    def _copy_trap(self, state: Register) -> None:
        """Writes the copy of the record of a trap, which changes the state of a job that has run to its end."""
        w, skip, record = self._w, self._w.label(), self._trap()
        flag = w.emit("r", "ld.relaxed.gpu.global.u32", Address(record))
        none = w.emit("p", "setp.eq.u32", flag, 0)
        none = w.emit("p", "or.pred", none, w.emit("p", "setp.ne.u32", state, 0))
        w.line(f"@{none} bra {skip};")
        for word in range(0, 32, 4):
            value = w.emit("r", "ld.relaxed.gpu.global.u32", Address(record, word))
            w.line(f"st.relaxed.sys.global.u32 [{self._row}+{Row.TRAP + word}], {value};")
        w.line(f"mov.b32 {state}, {int(State.TRAPPED)};")
        w.place(skip)

    def _trap(self) -> Register:
        """Returns the address of the record of traps in this block's arena."""
        return self._k.parameter_address("trap")

    # ------------------------------------------------------------ looks
    def look(self, loop: Loop, rounds: Register | None, end: str) -> None:
        """Implements ``LoopLooks.look``."""
        if rounds is None:
            self._alone(end)
        elif self._k.facts.keeps_together(loop) is Uniformity.SUBGROUP:
            self._as_subgroup(rounds, end)
        else:
            self._together(rounds, end)

    def counts(self, loop: Loop) -> Register | None:
        """Implements ``LoopLooks.counts``."""
        alone = self._k.facts.keeps_together(loop) is Uniformity.LANE
        return None if alone else self._w.emit("r", "mov.b32", 0)

    def _alone(self, end: str) -> None:
        w, skip, fuel = self._w, self._w.label(), self._fuel
        assert fuel is not None
        w.line(f"sub.u32 {fuel}, {fuel}, 1;")
        w.jump_if("ne.u32", fuel, 0, skip)
        w.line(f"mov.b32 {fuel}, {LONELY_ROUNDS};")
        state = self._found()
        w.jump_if("eq.u32", state, 0, skip)
        w.line(f"mov.b32 {fuel}, 1;")
        self._post("u32", Board.STATE, state)
        w.line(f"bra {end};")
        w.place(skip)

    def _as_subgroup(self, rounds: Register, end: str) -> None:
        w, skip = self._w, self._w.label()
        self._count(rounds, skip)
        state = self._found()
        seen = w.emit("p", "setp.ne.u32", state, 0)
        w.line(f"@{seen} st.volatile.shared.u32 {self._board(Board.STATE)}, {state};")
        votes = w.emit("r", "vote.sync.ballot.b32", seen, self._k.member_mask())
        w.jump_if("ne.u32", votes, 0, end)
        w.place(skip)

    def _together(self, rounds: Register, end: str) -> None:
        """Writes a look of a whole workgroup.

        The verdict is written between two barriers, so that all lanes read the same one until they meet again.
        """
        w, skip, told = self._w, self._w.label(), self._w.label()
        before = w.emit("r", "ld.volatile.shared.u32", self._board(Board.VERDICT))
        w.jump_if("ne.u32", before, 0, end)
        self._count(rounds, skip)
        w.line("barrier.sync 0;")
        w.line(f"@{self._follows} bra {told};")
        state = self._found()
        self._post("u32", Board.STATE, state)
        self._post("u32", Board.VERDICT, state)
        w.place(told)
        w.line("barrier.sync 0;")
        verdict = w.emit("r", "ld.volatile.shared.u32", self._board(Board.VERDICT))
        w.jump_if("ne.u32", verdict, 0, end)
        w.place(skip)

    def _count(self, rounds: Register, skip: str) -> None:
        w = self._w
        w.line(f"add.u32 {rounds}, {rounds}, 1;")
        part = w.emit("r", "and.b32", rounds, JOINT_ROUNDS - 1)
        w.jump_if("ne.u32", part, 0, skip)

    def _found(self) -> Register:
        """Writes a look; returns the state that the job has to be given, 0 if it may go on."""
        w = self._w
        known = w.emit("r", "ld.volatile.shared.u32", self._board(Board.STATE))
        self._post("u32", Board.PULSE, known)
        now, deadline = self._now(), w.emit("rd", "ld.volatile.shared.u64", self._board(Board.DEADLINE))
        late = w.emit("p", "setp.gt.u64", now, deadline)
        state = w.emit("r", "selp.b32", int(State.LATE), 0, late)
        stop = w.emit("r", "ld.relaxed.sys.global.u32", Address(self._field(Descriptor.HEAD), Head.STOP))
        going = w.emit("p", "setp.eq.u32", stop, 0)
        state = w.emit("r", "selp.b32", state, int(State.STOPPED), going)
        fresh = w.emit("p", "setp.eq.u32", known, 0)
        return w.emit("r", "selp.b32", state, known, fresh)

    # ------------------------------------------------------------ details
    def _field(self, field: int) -> Register:
        return self._fields[field]

    def _board(self, offset: int) -> Address:
        return Address(BOARD, offset)

    def _post(self, kind: str, offset: int, value: Register) -> None:
        self._w.line(f"st.volatile.shared.{kind} {self._board(offset)}, {value};")

    def _now(self) -> Register:
        return self._w.emit("rd", "mov.u64", Register("%globaltimer"))

    def _each_chunk(self, start: int | None, end: int, write: Callable[[Register], None]) -> None:
        """Writes a loop in which all lanes together visit the 16-byte chunks between two offsets."""
        w, again, over = self._w, self._w.label(), self._w.label()
        offset = w.emit("rd", "mul.lo.u64", self._linear, _CHUNK)
        if start is not None:
            w.line(f"add.u64 {offset}, {offset}, {self._field(start)};")
        w.jump_if("ge.u64", offset, self._field(end), over)
        w.place(again)
        write(offset)
        w.line(f"add.u64 {offset}, {offset}, {_CHUNK * self._k.threads};")
        w.jump_if("lt.u64", offset, self._field(end), again)
        w.place(over)

    def _move(self, target: Register, source: Register, offset: Register) -> None:
        w = self._w
        values = [w.register("r") for _ in range(4)]
        words = f"{{{', '.join(values)}}}"
        w.line(f"ld.global.v4.b32 {words}, [{w.emit('rd', 'add.u64', source, offset)}];")
        w.line(f"st.global.v4.b32 [{w.emit('rd', 'add.u64', target, offset)}], {words};")
