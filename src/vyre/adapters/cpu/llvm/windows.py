"""Loops whose lanes each go along a row of elements: the elements first, in the order of memory.

Such lanes would gather every element, round after round, until the longest row ends.  Instead the elements of all rows
(see ``loop_windows`` of the domain) are computed before the rounds, W consecutive ones at a time, and kept in scratch
memory.  The rounds then read four elements of each row at once and transpose them.  What a lane computes, and in which
order, is the same.

Where the rows of a vector's lanes lie close together, as those of a sparse matrix do, they are one *window*, which is
computed whole whatever the lengths of the rows.  Rows that are long or lie apart are computed one by one, in *panels*
of as many rounds as scratch memory holds.

Elements between and behind the rows are computed as well, so that every index of a load is compared with the length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from vyre.adapters.cpu.llvm import control
from vyre.adapters.cpu.llvm.blocks import Spilled, each_word
from vyre.adapters.cpu.llvm.bounds import Bounds
from vyre.adapters.cpu.llvm.context import AssignedLocal, Kernel
from vyre.adapters.cpu.llvm.expressions import evaluate
from vyre.adapters.cpu.llvm.rows import columns
from vyre.adapters.cpu.llvm.values import SCALAR, Shape, Value
from vyre.domain.analysis.adjacent_loads import ROW
from vyre.domain.analysis.loop_windows import LoopWindow, loop_window
from vyre.domain.ir.stmt import Assign, Let, Loop
from vyre.domain.ir.types import ScalarType

WINDOW: Final = 1024
"""The most elements of a window."""
PANEL: Final = 64
"""The rounds of a panel."""
MOST_LANES: Final = 16
"""The most lanes of a vector whose loops are written this way."""
_WORD_BYTES: Final = 4
_STRIDE: Final = PANEL + 16
"""The places of a row in a panel.  They are no power of two, so that rows share no places of a cache."""
_AREA_BYTES: Final = _WORD_BYTES * (2 * WINDOW + 64)
"""The size of the memory of one element: a lane reads on behind its row while there is a longer one."""
_U32: Final = ScalarType.U32


def window_of(k: Kernel, stmt: Loop, bounds: Bounds) -> LoopWindow | None:
    """Returns the parts of a loop that may be written as a window; None if it cannot."""
    if not ROW <= k.lanes <= MOST_LANES or bounds.start.shape is not Shape.VARYING:
        return None
    if k.options.counting or k.write_statements is not None:
        return None
    return loop_window(stmt, k.buffers)


def write(k: Kernel, stmt: Loop, bounds: Bounds, window: LoopWindow) -> None:
    """Writes a loop twice: for rows that lie close together, and for any."""
    w, mask = k.w, k.mask
    rows = _Rows(k, bounds)
    near, apart, end = w.label("near"), w.label("apart"), w.label("end")
    w.branch(rows.are_close, near, apart, likely=True)
    writer = _Window(k, stmt, window, rows)
    for label, write_one in ((near, writer.whole), (apart, writer.panels)):
        k.enter(label)
        write_one()
        w.jump(end)
        k.leave()
        k.mask = mask
    writer.close()
    w.place(end)
    k.forget(writer.assigned)


class _Rows:
    """The rows of the lanes that enter a loop: operands of LLVM, scalars of i32 and vectors of them.

    ``first`` is the number of the first element of any row, ``span`` the distance from there to the end of the last
    one.  ``starts`` are the values of the counter in the first round, ``offsets`` their distances from ``first``, and
    ``lengths`` the rounds; the last two are 0 for lanes that run none.
    """

    def __init__(self, k: Kernel, bounds: Bounds) -> None:
        self._k: Final = k
        w, vector = k.w, k.vector_type("i32")
        self.starts: Final = k.vector(bounds.start)
        stops = k.vector(bounds.stop)
        entered = k.both(k.mask, bounds.entered()[0])
        assert entered is not None
        self.first: Final = self.reduced("umin", k.chosen(entered, vector, self.starts, "splat (i32 -1)"))
        last = self.reduced("umax", k.chosen(entered, vector, stops))
        self.span: Final = w.pure("sub i32 {}, {}", last, self.first)
        distances = w.pure(f"sub {vector} {{}}, {{}}", self.starts, k.splat("i32", self.first))
        self.offsets: Final = k.chosen(entered, vector, distances)
        rounds = w.pure(f"sub {vector} {{}}, {{}}", stops, self.starts)
        self.lengths: Final = k.chosen(entered, vector, rounds)

    @property
    def are_close(self) -> str:
        """Returns whether the window is small, and at least half of its elements belong to rows; an i1 operand."""
        w = self._k.w
        # Where the window is small, no length is larger, and their sum does not wrap.
        twice = w.pure("shl i32 {}, 1", self.reduced("add", self.lengths))
        return w.pure(
            "and i1 {}, {}",
            w.pure(f"icmp ule i32 {{}}, {WINDOW}", self.span),
            w.pure("icmp ule i32 {}, {}", self.span, twice),
        )

    @property
    def most(self) -> str:
        """Returns the rounds of the longest row, an i32 operand."""
        return self.reduced("umax", self.lengths)

    def reduced(self, op: str, vector: str) -> str:
        """Returns the result of an operation over the lanes of a vector of i32."""
        k = self._k
        kind = k.vector_type("i32")
        return k.w.call("i32", f"vector.reduce.{op}.v{k.lanes}i32", (kind, vector))


class _Window:
    """A loop whose elements are computed before its rounds."""

    def __init__(self, k: Kernel, stmt: Loop, window: LoopWindow, rows: _Rows) -> None:
        self._k: Final = k
        self._stmt: Final = stmt
        self._window: Final = window
        self._rows: Final = rows
        self._areas: Final = [k.scratch.reserve(_AREA_BYTES) for _ in window.elements]
        self.assigned: Final = {s.name for s in window.rest if isinstance(s, Assign)}
        """The names of the locals that the rounds change."""

    def close(self) -> None:
        """Gives the scratch memory back."""
        for area in self._areas:
            self._k.scratch.release(area, _AREA_BYTES)

    def whole(self) -> None:
        """Writes the loop for rows that lie close together, at least one of which has an element."""
        k, rows = self._k, self._rows
        dtypes: list[ScalarType] = []

        def elements(counter: str) -> None:
            dtypes[:] = self._elements(k.w.pure("add i32 {}, {}", rows.first, counter), counter)

        self._counted(rows.span, k.lanes, elements)
        k.forget(self.assigned)
        places = each_word(k, rows.offsets)
        self._counted(rows.most, ROW, lambda row: self._rounds(row, dtypes, rows.starts, rows.lengths, places))

    def panels(self) -> None:
        """Writes the loop for any rows, panel by panel."""
        k, w, most = self._k, self._k.w, self._rows.most
        some, end = w.label("some"), w.label("end")
        w.branch(w.pure("icmp ne i32 {}, 0", most), some, end)
        w.place(some)
        k.forget(self.assigned)
        self._counted(most, PANEL, self._panel)
        w.jump(end)
        w.place(end)

    def _panel(self, done: str) -> None:
        """Writes the rounds of a panel, from number ``done`` on."""
        k, w, rows = self._k, self._k.w, self._rows
        vector = k.vector_type("i32")
        control.poll(k)
        behind = k.splat("i32", done)
        left = w.call(vector, f"usub.sat.v{k.lanes}i32", (vector, rows.lengths), (vector, behind))
        left = w.call(vector, f"umin.v{k.lanes}i32", (vector, left), (vector, f"splat (i32 {PANEL})"))
        starts = w.pure(f"add {vector} {{}}, {{}}", rows.starts, behind)
        lengths, firsts = Spilled(k, "rounds", "i32", left), Spilled(k, "starts", "i32", starts)
        dtypes: list[ScalarType] = []

        def lane(number: str) -> None:
            count, first = lengths.lane(number), firsts.lane(number)
            place = w.pure(f"mul i32 {{}}, {_STRIDE}", number)
            some, end = w.label("some"), w.label("end")
            w.branch(w.pure("icmp ne i32 {}, 0", count), some, end)
            w.open_scope()
            w.place(some)

            def elements(step: str) -> None:
                dtypes[:] = self._elements(w.pure("add i32 {}, {}", first, step), w.pure("add i32 {}, {}", place, step))

            self._counted(count, k.lanes, elements)
            w.jump(end)
            w.close_scope()
            w.place(end)

        self._counted(str(k.lanes), 1, lane)
        most = rows.reduced("umax", left)
        places = [str(_STRIDE * number) for number in range(k.lanes)]
        self._counted(most, ROW, lambda row: self._rounds(row, dtypes, starts, left, places))
        k.forget(self.assigned)

    def _counted(self, stop: str, step: int, write: Callable[[str], None]) -> None:
        """Writes a loop over 0, ``step``, and so on below ``stop``, which is not 0; i32 operands."""
        k, w = self._k, self._k.w
        place, head = w.at_entry("alloca i32"), w.label("loop")
        w.line(f"store i32 0, ptr {place}")
        k.open_loop(head)
        mark = k.locals.mark
        counter = w.here(f"load i32, ptr {place}")
        write(counter)
        k.locals.leave(mark)
        after = w.label("after")
        w.line(f"store i32 {w.pure(f'add i32 {{}}, {step}', counter)}, ptr {place}")
        w.branch(w.pure(f"icmp ugt i32 {{}}, {step}", w.pure("sub i32 {}, {}", stop, counter)), head, after)
        k.close_loop(after)

    def _elements(self, counter: str, place: str) -> list[ScalarType]:
        """Writes the elements of W rounds from a value of the counter on, to a place of the areas.

        Returns their types.
        """
        k, w, mask = self._k, self._k.w, self._k.mask
        k.mask, k.is_early = None, True
        mark = k.locals.mark
        k.locals.declare(self._stmt.var, k.affine(_U32, counter, 1))
        for let in self._window.lets:
            k.known.clear()
            k.locals.declare(let.name, evaluate(k, let.value))
        k.known.clear()
        dtypes: list[ScalarType] = []
        for expr, area in zip(self._window.elements, self._areas, strict=True):
            value = evaluate(k, expr)
            kind, operand = k.vector_type(_held(value.dtype)), k.vector(value)
            if value.dtype is ScalarType.BOOL:
                operand = w.pure(f"zext {k.vector_type('i1')} {{}} to {kind}", operand)
            w.line(f"store {kind} {operand}, ptr {self._address(area, place)}, align {_WORD_BYTES}")
            dtypes.append(value.dtype)
        k.known.clear()
        k.locals.leave(mark)
        k.mask, k.is_early = mask, False
        return dtypes

    def _rounds(self, row: str, dtypes: Sequence[ScalarType], starts: str, lengths: str, places: Sequence[str]) -> None:
        """Writes four rounds of the lanes, from number ``row`` on.

        ``starts`` are the values of the counter in round 0, ``lengths`` the rounds of each lane, and ``places`` those
        of the first elements in the areas, i64 operands.
        """
        k, w, mask = self._k, self._k.w, self._k.mask
        vector = k.vector_type("i32")
        columns_of: list[list[Value]] = []
        for area, dtype in zip(self._areas, dtypes, strict=True):
            kind, base = _held(dtype), self._address(area, row)
            addresses = [w.pure("getelementptr i32, ptr {}, i64 {}", base, place) for place in places]
            parts = [w.here(f"load <{ROW} x {kind}>, ptr {address}, align {_WORD_BYTES}") for address in addresses]
            columns_of.append([self._value(dtype, column) for column in columns(k, kind, parts)])
        for number in range(ROW):
            done = k.splat("i32", w.pure(f"add i32 {{}}, {number}", row))
            k.mask = w.pure(f"icmp sgt {vector} {{}}, {{}}", lengths, done)
            counter = w.pure(f"add {vector} {{}}, {{}}", starts, done)
            values_of = {id(e): values[number] for e, values in zip(self._window.elements, columns_of, strict=True)}
            mark = k.locals.mark
            k.locals.declare(self._stmt.var, k.varying(_U32, counter))
            for stmt in self._window.rest:
                k.locate(stmt)
                k.known.clear()
                k.known.update(values_of)
                self._computed(stmt, evaluate(k, stmt.value))
            k.locals.leave(mark)
        k.known.clear()
        k.mask = mask

    def _address(self, area: int, place: str) -> str:
        k = self._k
        wide = k.w.pure("zext i32 {} to i64", place)
        return k.w.pure("getelementptr i32, ptr {}, i64 {}", k.scratch_address(area), wide)

    def _computed(self, stmt: Let | Assign, value: Value) -> None:
        k = self._k
        if isinstance(stmt, Let):
            k.declare(stmt, value)
        else:
            slot = k.locals[stmt.name]
            assert isinstance(slot, AssignedLocal)
            k.write(slot, value)

    def _value(self, dtype: ScalarType, column: str) -> Value:
        k = self._k
        if dtype is ScalarType.BOOL:
            column = k.w.pure(f"icmp ne {k.vector_type('i32')} {{}}, zeroinitializer", column)
        return k.varying(dtype, column)


def _held(dtype: ScalarType) -> str:
    """Returns the LLVM type in which scratch memory holds an element."""
    return "i32" if dtype is ScalarType.BOOL else SCALAR[dtype]
