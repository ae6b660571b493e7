"""Regions: pieces of a program that run as a loop over the vectors of lanes of a workgroup.

What lives from one region to the next is computed again where that is cheap, is one number where the whole workgroup
agrees on it, and is kept in scratch memory otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from vyre.adapters.cpu.llvm.blocks import NO_LANES, Join
from vyre.adapters.cpu.llvm.context import AssignedLocal, Flow, Kernel
from vyre.adapters.cpu.llvm.expressions import evaluate
from vyre.adapters.cpu.llvm.flow import assigned_in, twice, write_statements
from vyre.adapters.cpu.llvm.ids import linear_base
from vyre.adapters.cpu.llvm.values import SCALAR, Value
from vyre.domain.ir.expr import ORDERED, Expr, Var
from vyre.domain.ir.stmt import Assign, Body, Let, Stmt, operands, walk_statements
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.walk import unique_nodes

MOST_REPEATED: Final = 8
"""The number of operators up to which a local is computed again in a later region, not kept."""
_MASK_BYTES: Final = 4
_GOES_ON: Final = (Flow.THROUGH, Flow.PARTLY)


class Kept:
    """A local in scratch memory, one value for each vector of lanes."""

    __slots__ = ("dtype", "is_mutable", "is_uniform", "nbytes", "offset", "stride")

    def __init__(self, k: Kernel, dtype: ScalarType, *, is_uniform: bool, is_mutable: bool = False) -> None:
        size = max(dtype.size, 4)
        self.dtype: Final = dtype
        self.is_uniform: Final = is_uniform
        self.is_mutable: Final = is_mutable
        self.stride: Final = size if is_uniform else size * k.lanes
        self.nbytes: Final = self.stride * k.chunks
        self.offset: Final = k.scratch.reserve(self.nbytes)

    def _place(self, k: Kernel) -> tuple[str, str]:
        """Returns the address for the current vector of lanes, and the type there."""
        element = "i32" if self.dtype is ScalarType.BOOL else SCALAR[self.dtype]
        base = k.scratch_address(self.offset)
        offset = k.w.pure(f"mul i64 {{}}, {self.stride}", k.chunk)
        kind = element if self.is_uniform else k.vector_type(element)
        return k.w.pure("getelementptr i8, ptr {}, i64 {}", base, offset), kind

    def load(self, k: Kernel) -> Value:
        """Returns the value for the current vector of lanes."""
        place, kind = self._place(k)
        operand = k.w.here(f"load {kind}, ptr {place}, align {self._alignment}")
        if self.dtype is ScalarType.BOOL:
            operand = k.w.pure(f"icmp ne {kind} {{}}, {'0' if self.is_uniform else 'zeroinitializer'}", operand)
        return k.uniform(self.dtype, operand) if self.is_uniform else k.varying(self.dtype, operand)

    def store(self, k: Kernel, value: Value) -> None:
        """Keeps the value of the current vector of lanes."""
        place, kind = self._place(k)
        operand = value.operand if self.is_uniform else k.vector(value)
        if self.dtype is ScalarType.BOOL:
            source = "i1" if self.is_uniform else k.vector_type("i1")
            operand = k.w.pure(f"zext {source} {{}} to {kind}", operand)
        k.w.line(f"store {kind} {operand}, ptr {place}, align {self._alignment}")

    @property
    def _alignment(self) -> int:
        return min(self.stride, 4) if self.is_uniform else 16


class LaneMask:
    """Some lanes of a workgroup: W bits in scratch memory for each vector, and a word that tells whether any is set."""

    __slots__ = ("_flag", "_offset", "_w")

    def __init__(self, k: Kernel) -> None:
        self._offset: Final = k.scratch.reserve(_MASK_BYTES * k.chunks)
        self._flag: Final = k.w.at_entry("alloca i32")

    def _place(self, k: Kernel) -> str:
        base = k.scratch_address(self._offset)
        return k.w.pure("getelementptr i8, ptr {}, i64 {}", base, k.w.pure(f"mul i64 {{}}, {_MASK_BYTES}", k.chunk))

    def reset(self, k: Kernel) -> None:
        """Notes that no lane is set; written before a region that puts the mask of every vector."""
        k.w.line(f"store i32 0, ptr {self._flag}")

    def load(self, k: Kernel) -> str:
        """Returns the lanes of the current vector, a mask."""
        word = k.w.here(f"load i32, ptr {self._place(k)}, align 4")
        bits = k.w.pure(f"trunc i32 {{}} to i{k.lanes}", word) if k.lanes < 32 else word
        return k.w.pure(f"bitcast i{k.lanes} {{}} to {k.vector_type('i1')}", bits)

    def put(self, k: Kernel, mask: str, *, is_noted: bool = True) -> None:
        """Sets the lanes of the current vector; ``is_noted`` if this is their last change in a region."""
        word = k.word_of(mask)
        k.w.line(f"store i32 {word}, ptr {self._place(k)}, align 4")
        if is_noted:
            before = k.w.here(f"load i32, ptr {self._flag}")
            k.w.line(f"store i32 {k.w.pure('or i32 {}, {}', before, word)}, ptr {self._flag}")

    def clear(self, k: Kernel) -> None:
        """Empties the mask of the current vector."""
        k.w.line(f"store i32 0, ptr {self._place(k)}, align 4")

    def add(self, k: Kernel) -> None:
        """Adds the active lanes."""
        self.put(k, k.masks.combined("or", self.load(k), k.lane_mask()), is_noted=False)

    def any(self, k: Kernel) -> str:
        """Returns an i1 that is true if a lane of the workgroup is set; written after a region that puts the mask."""
        return k.w.pure("icmp ne i32 {}, 0", k.w.here(f"load i32, ptr {self._flag}"))


class Hook(NamedTuple):
    """Code that a region runs for every vector of lanes, and the masks that it puts; it evaluates ``reads``."""

    write: Callable[[], None]
    masks: tuple[LaneMask, ...] = ()
    reads: tuple[Expr, ...] = ()


Across: TypeAlias = "Kept | Expr"
"""A local that several regions use: kept in scratch memory, or an expression that each computes again."""


class Regions:
    """Writes the regions of one kernel, and keeps what lives across them."""

    def __init__(self, k: Kernel) -> None:
        self._k: Final = k
        self.across: Final[dict[str, Across]] = {}
        """Locals in scope that regions share, by name."""
        self._free_masks: Final[list[LaneMask]] = []

    # ---- scopes
    def open(self) -> tuple[int, dict[str, Across]]:
        """Begins the scope of a body; returns what ``close`` needs."""
        return self._k.locals.mark, dict(self.across)

    def close(self, scope: tuple[int, dict[str, Across]]) -> None:
        """Ends the scope of a body, and the use of the scratch memory that its locals were kept in."""
        k = self._k
        k.locals.leave(scope[0])
        for name, across in self.across.items():
            if isinstance(across, Kept) and scope[1].get(name) is not across:
                k.scratch.release(across.offset, across.nbytes)
        self.across.clear()
        self.across.update(scope[1])

    def mask(self) -> LaneMask:
        """Returns a mask that nothing else uses."""
        return self._free_masks.pop() if self._free_masks else LaneMask(self._k)

    def release(self, *masks: LaneMask) -> None:
        """Ends the use of masks."""
        self._free_masks.extend(masks)

    # ---- vectors of lanes
    def each_vector(self, write: Callable[[], None], count: str = "") -> None:
        """Writes code for every vector of lanes of a workgroup, or for the first ``count``, at least 1, of them."""
        k, w = self._k, self._k.w
        outer = k.mask
        count = count or str(k.chunks)
        if count == "1":
            k.chunk, k.mask = "0", k.both(self.tail(), outer)
            write()
            k.mask = outer
            return
        before, head, latch, after = w.block, w.label("vector"), w.label("latch"), w.label("after")
        k.open_loop(head)
        following = f"%{latch}.next"
        k.chunk = w.here(f"phi i64 [ 0, %{before} ], [ {following}, %{latch} ]")
        k.mask = k.both(self.tail(), outer)
        write()
        w.jump(latch)
        w.place(latch)
        w.line(f"{following} = add i64 {k.chunk}, 1")
        more = w.here(f"icmp ult i64 {following}, {count}")
        w.branch(more, head, after)
        k.close_loop()
        w.place(after)
        k.chunk = "0"
        k.mask = outer

    def tail(self) -> str | None:
        """Returns the lanes of the current vector that exist."""
        k = self._k
        if k.size % k.lanes == 0:
            return None
        kind = k.vector_type("i32")
        numbers = k.vector(k.affine(ScalarType.U32, linear_base(k), 1))
        return k.w.pure(f"icmp ult {kind} {{}}, splat (i32 {k.size})", numbers)

    # ---- regions
    def write(
        self,
        run: Sequence[Stmt],
        is_needed: Callable[[str], bool],
        *,
        mask: LaneMask | None = None,
        ends: bool = False,
        inside: Hook | None = None,
        after: Hook | None = None,
        once: bool = False,
        reach: Callable[[Body], str] | None = None,
    ) -> bool:
        """Writes statements as a loop over the vectors; returns whether a lane may reach their end.

        ``is_needed`` tells which of the locals that they declare live on.  ``mask`` are the lanes that take part, or
        all; ``ends`` if some of them may not reach the end: then the mask becomes that of those which do.  ``inside``
        runs after the statements where a lane is active, ``after`` for every vector.  Code for all lanes active is
        written besides code for some, unless ``once``.  ``reach`` tells in how many vectors statements do anything, if
        they declare nothing that lives on.
        """
        k, body = self._k, tuple(run)
        roots = [*(root for s in walk_statements(body) for root in operands(s)), *(inside.reads if inside else ())]
        used = {node.name for node in unique_nodes(roots) if isinstance(node, Var)}
        assigned = assigned_in(body)
        declared = {s.name: s for s in run if isinstance(s, Let) and is_needed(s.name)}
        fresh: dict[str, Kept] = {}
        inner = {s.name for s in walk_statements(body) if isinstance(s, Let)} - declared.keys()
        if ends:
            k.slotted.update(declared)  # a value that is computed behind an early end does not reach the end of the run

        def lanes() -> Flow:
            mark, copied = k.locals.mark, k.copied
            k.copied = copied or once  # what lives on has one place, which two copies of its statement would not share
            for name, across in self.across.items():
                if name in used or name in assigned:
                    self._declare(name, across, used, is_nested=once)
            flow = write_statements(k, body, 0)
            if flow in _GOES_ON:
                self._keep(assigned, declared, inner, fresh)
                if inside is not None:
                    k.known.clear()
                    inside.write()
            k.copied = copied
            k.locals.leave(mark)
            return flow

        noted = after is None or mask not in after.masks
        goes_on = True

        def vector() -> None:
            nonlocal goes_on
            if mask is not None:
                k.mask = mask.load(k)
            for changed in inside.masks if inside is not None else ():
                changed.clear(k)
            if body or inside is not None:
                flow = lanes() if k.mask is None else self._some(lanes, body, once=once)
                if mask is not None and ends:
                    mask.put(k, k.lane_mask() if flow in _GOES_ON else NO_LANES, is_noted=noted)
                goes_on = flow in _GOES_ON
            if after is not None:
                after.write()

        if mask is not None and ends:
            mask.reset(k)
        for hook in (inside, after):
            for changed in hook.masks if hook is not None else ():
                changed.reset(k)
        self.each_vector(vector, reach(body) if reach is not None and not declared else "")
        k.slotted.clear()
        for name, stmt in declared.items():
            kept = fresh.get(name)
            self.across[name] = stmt.value if kept is None else kept
        return goes_on

    def _some(self, lanes: Callable[[], Flow], body: Body, *, once: bool) -> Flow:
        """Writes code for the current mask, jumped over if it is empty."""
        if not once and self._k.lanes > 1:
            return twice(self._k, lanes, body)
        k, end, some = self._k, Join(self._k, "end"), self._k.w.label("some")
        assert k.mask is not None
        end.expect(NO_LANES)
        k.w.branch(k.any(k.mask), some, end.label)
        k.enter(some)
        k.take(k.mask)
        flow = lanes()
        end.arrive(flow)
        k.leave()
        end.finish()
        k.forget(assigned_in(body))
        return flow

    def _keep(self, assigned: Iterable[str], declared: dict[str, Let], inner: set[str], fresh: dict[str, Kept]) -> None:
        """Writes what lives on to scratch memory."""
        k = self._k
        for name in sorted(assigned):
            across, slot = self.across.get(name), k.locals.get(name)
            if isinstance(across, Kept) and isinstance(slot, AssignedLocal):
                across.store(k, k.read(slot))
        for name, stmt in declared.items():
            local = k.locals[name]
            if not isinstance(local, AssignedLocal) and self._is_repeated(stmt, declared, inner):
                continue
            value = k.read(local) if isinstance(local, AssignedLocal) else local
            kept = fresh.get(name)
            if kept is None:
                is_mutable = name in k.shapes.mutable
                uniform = k.is_uniform_local(stmt)
                kept = fresh[name] = Kept(k, value.dtype, is_uniform=uniform, is_mutable=is_mutable)
            kept.store(k, value)

    def _declare(self, name: str, across: Across, used: set[str], *, is_nested: bool) -> None:
        """Declares a local that an earlier region has computed."""
        k = self._k
        if not isinstance(across, Kept):
            for node in unique_nodes((across,)):
                if isinstance(node, Var) and node.name in self.across and node.name not in used:
                    self._declare(node.name, self.across[node.name], used, is_nested=is_nested)
            k.known.clear()
            k.locals.declare(name, evaluate(k, across))
            return
        value = across.load(k)
        if across.is_mutable:
            slot = k.slot(across.dtype, is_uniform=across.is_uniform)
            k.write(slot, value)
            if is_nested:  # lanes that do not take part keep their values
                slot = AssignedLocal(slot.dtype, slot.address, None, is_uniform=slot.is_uniform)
            k.locals.declare(name, slot)
        else:
            k.locals.declare(name, value)

    def _is_repeated(self, stmt: Let, declared: dict[str, Let], inner: set[str]) -> bool:
        """Returns whether a local is computed again in later regions.

        ``declared`` are the locals of this region that live on as it does, and ``inner`` those that do not.
        """
        count = 0
        for node in unique_nodes((stmt.value,)):
            count += 1
            if type(node) in ORDERED:
                return False
            if isinstance(node, Var):
                known = self.across.get(node.name, self._k.locals.get(node.name))
                if node.name in inner or known is None or isinstance(known, AssignedLocal):
                    return False
                if isinstance(known, Kept) and known.is_mutable:
                    return False
                if isinstance(known, Value) and node.name not in declared and not known.is_uniform:
                    return False
        return count <= MOST_REPEATED


def last_uses(body: Body) -> dict[str, int]:
    """Returns the number of the last statement of a body that reads or assigns each name."""
    last: dict[str, int] = {}
    for number, stmt in enumerate(body):
        for inner in walk_statements((stmt,)):
            for node in unique_nodes(operands(inner)):
                if isinstance(node, Var):
                    last[node.name] = number
            if isinstance(inner, Assign):
                last[inner.name] = number
    return last
