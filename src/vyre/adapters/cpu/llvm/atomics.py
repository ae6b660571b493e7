"""Atomics: read-modify-writes of one element by each active lane, in ascending order.

They are plain loads and stores where nothing but the own thread uses the memory: workgroup memory, and every buffer of
the exclusive variant.  All others are relaxed atomic instructions: what a program may rely on beyond that are barriers.
Minimum, maximum, AND and OR, whose old values nothing uses, first look which elements they would change, if that saves
locks, or if all lanes have one operand and the processor has scatters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from vyre.adapters.cpu.llvm import addressing, blocks
from vyre.adapters.cpu.llvm.addressing import bits_type
from vyre.adapters.cpu.llvm.blocks import Spilled, for_each_lane
from vyre.adapters.cpu.llvm.context import Kernel, vector_text
from vyre.adapters.cpu.llvm.loads import gather
from vyre.adapters.cpu.llvm.stores import scatter
from vyre.adapters.cpu.llvm.values import SCALAR, Shape, Value, literal
from vyre.domain.ir.buffers import element_of
from vyre.domain.ir.expr import Atomic
from vyre.domain.ir.operators import AtomicOp
from vyre.domain.ir.types import ScalarType

_Op = AtomicOp
_INSTRUCTIONS: Final = {
    _Op.ADD: "add",
    _Op.OR: "or",
    _Op.AND: "and",
    _Op.XOR: "xor",
    _Op.EXCHANGE: "xchg",
    _Op.FETCH_NAND: "nand",
}


def atomic(k: Kernel, node: Atomic, index: Value, expected: Value | None, value: Value, *, used: bool) -> Value:
    """Returns the old values; 0 out of range, where nothing changes.  If they are not ``used``, they are just 0."""
    update = _Update(k, node, expected, value, used=used)
    if index.is_uniform:
        ok = addressing.inside(k, node, index)
        if ok is False:
            return literal(update.element, 0)
        if k.lanes == 1:
            return _single(k, node, index, ok, update)
        if update.identity is not None:
            return _combined(k, node, index, ok, update)
    if not used and update.is_idempotent and (not update.is_plain or (value.is_uniform and k.options.predicated)):
        _where_it_changes(k, node, index, update)
        return literal(update.element, 0)
    return _lane_by_lane(k, node, index, update)


class _Update:
    """One atomic: its operation on an element and its operands."""

    def __init__(self, k: Kernel, node: Atomic, expected: Value | None, value: Value, *, used: bool) -> None:
        self.k: Final = k
        self.op: Final = node.op
        self.element: Final[ScalarType] = element_of(k.buffers[node.buffer])
        self.kind: Final = bits_type(self.element)
        self.expected: Final = expected
        self.value: Final = value
        self.used: Final = used
        self.is_plain: Final = k.options.exclusive or k.buffers[node.buffer].is_workgroup
        """Whether nothing but the own thread uses the memory."""

    @property
    def name(self) -> str:
        """Returns the name of the operation in ``atomicrmw``."""
        if self.op in (_Op.MIN, _Op.MAX):
            return ("" if self.element.is_signed else "u") + ("min" if self.op is _Op.MIN else "max")
        return _INSTRUCTIONS[self.op]

    @property
    def identity(self) -> str | None:
        """Returns the value with which the operation changes nothing; None if lanes cannot be combined in advance."""
        bits, signed = self.element.bits, self.element.is_signed
        match self.op:
            case _Op.ADD | _Op.OR | _Op.XOR:
                return "0"
            case _Op.AND:
                return "-1"
            case _Op.MIN:
                return str((1 << bits - 1) - 1) if signed else "-1"
            case _Op.MAX:
                return str(-(1 << bits - 1)) if signed else "0"
            case _:
                return None

    @property
    def is_idempotent(self) -> bool:
        """Returns whether the operation, done twice with one operand, changes nothing the second time."""
        return self.op in (_Op.MIN, _Op.MAX, _Op.AND, _Op.OR)

    def combine(self, kind: str, a: str, b: str) -> str:
        """Returns the operation on two operands of a type, scalars or vectors; there is an ``identity``."""
        w = self.k.w
        if self.op in (_Op.MIN, _Op.MAX):
            function = f"{'s' if self.element.is_signed else 'u'}{self.name[-3:]}"
            size = self.kind if kind == self.kind else f"v{self.k.lanes}{self.kind}"
            return w.call(kind, f"{function}.{size}", (kind, a), (kind, b))
        return w.pure(f"{self.name} {kind} {{}}, {{}}", a, b)

    def new(self, old: str, value: str, expected: str | None) -> str:
        """Returns what the element becomes, a scalar."""
        w, kind = self.k.w, self.kind
        match self.op:
            case _Op.EXCHANGE:
                return value
            case _Op.FETCH_NAND:
                return w.pure(f"xor {kind} {{}}, -1", w.pure(f"and {kind} {{}}, {{}}", old, value))
            case _Op.COMPARE_EXCHANGE:
                assert expected is not None
                equal = w.pure(f"icmp eq {kind} {{}}, {{}}", old, expected)
                return w.pure(f"select i1 {{}}, {kind} {{}}, {kind} {{}}", equal, value, old)
            case _:
                return self.combine(kind, old, value)

    def apply(self, address: str, value: str, expected: str | None, counts: str | None = None) -> str:
        """Updates one element and returns its old value; where the i1 ``counts`` is false, it stays as it was.

        ``counts`` is for plain updates only.
        """
        w, kind, size = self.k.w, self.kind, self.element.size
        if self.is_plain:
            old = w.here(f"load {kind}, ptr {address}, align {size}")
            new = self.new(old, value, expected)
            if counts is not None:
                new = w.pure(f"select i1 {{}}, {kind} {{}}, {kind} {{}}", counts, new, old)
            w.line(f"store {kind} {new}, ptr {address}, align {size}")
            return old
        if self.op is _Op.COMPARE_EXCHANGE:
            swap = f"cmpxchg ptr {address}, {kind} {expected}, {kind} {value} monotonic monotonic, align {size}"
            return w.pure(f"extractvalue {{{{ {kind}, i1 }}}} {{}}, 0", w.here(swap))
        return w.here(f"atomicrmw {self.name} ptr {address}, {kind} {value} monotonic, align {size}")


# ---- one lane
def _single(k: Kernel, node: Atomic, index: Value, ok: str | bool, update: _Update) -> Value:
    """Updates the element of the only lane of a vector."""
    w, kind = k.w, update.kind
    expected = None if update.expected is None else update.expected.operand
    value = update.value.operand

    def change() -> str:
        address = addressing.element_address(k, node.buffer, index)
        if update.used or update.is_plain or not update.is_idempotent:
            return update.apply(address, value, expected)
        # An operation that changes nothing may happen when the element was read.
        element = w.here(f"load atomic {kind}, ptr {address} monotonic, align {update.element.size}")
        changes = w.pure(f"icmp ne {kind} {{}}, {{}}", element, update.combine(kind, element, value))
        blocks.branch(k, changes, lambda: update.apply(address, value, expected))
        return "0"

    if not isinstance(ok, str):
        old = change()
    elif update.used:
        old = blocks.either(k, ok, kind, change, lambda: "0")
    else:
        blocks.branch(k, ok, lambda: change())
        old = "0"
    return k.uniform(update.element, old) if update.used else literal(update.element, 0)


# ---- one element for all lanes
def _combined(k: Kernel, node: Atomic, index: Value, ok: str | bool, update: _Update) -> Value:
    """Combines the values of all active lanes first, and updates the element once."""
    w, kind, value = k.w, update.kind, update.value
    address = addressing.element_address(k, node.buffer, index)
    if isinstance(ok, str):
        address = w.pure("select i1 {}, ptr {}, ptr {}", ok, address, addressing.spare(k))
    if not update.used:
        update.apply(address, _total(k, update), None)
        return literal(update.element, 0)
    vector = k.vector_type(kind)
    if update.op is _Op.ADD and value.is_uniform and value.number is not None and k.mask is None and ok is True:
        total = str((value.number * k.lanes) & ((1 << update.element.bits) - 1))
        return k.affine(update.element, update.apply(address, total, None), value.number)
    running = _running(k, update, _active_values(k, update))
    total = w.pure(f"extractelement {vector} {{}}, i32 {k.lanes - 1}", running)
    old = k.splat(kind, update.apply(address, total, None))
    # A lane sees the old value combined with the values of the lanes below it.
    identity = k.splat(kind, update.identity or "0")
    order = vector_text("i32", [k.lanes, *range(k.lanes - 1)])
    below = w.pure(f"shufflevector {vector} {{}}, {vector} {identity}, {k.vector_type('i32')} {order}", running)
    seen = update.combine(vector, old, below)
    if isinstance(ok, str):
        seen = w.pure(f"select i1 {{}}, {vector} {{}}, {vector} zeroinitializer", ok, seen)
    return k.varying(update.element, seen)


def _active_values(k: Kernel, update: _Update) -> str:
    """Returns the values of the active lanes, and the identity in the others, as a vector."""
    operand = k.vector(update.value)
    if k.mask is None:
        return operand
    identity = k.splat(update.kind, update.identity or "0")
    return k.chosen(k.mask, k.vector_type(update.kind), operand, identity)


def _running(k: Kernel, update: _Update, operand: str) -> str:
    """Returns in each lane the combination of the values up to and including its own."""
    vector, lanes = k.vector_type(update.kind), k.lanes
    identity, distance = k.splat(update.kind, update.identity or "0"), 1
    while distance < lanes:
        order = vector_text("i32", [lane - distance if lane >= distance else lanes for lane in range(lanes)])
        move = f"shufflevector {vector} {{}}, {vector} {identity}, {k.vector_type('i32')} {order}"
        operand = update.combine(vector, operand, k.w.pure(move, operand))
        distance *= 2
    return operand


def _total(k: Kernel, update: _Update) -> str:
    """Returns the combination of the values of all active lanes, a scalar."""
    w, kind, value = k.w, update.kind, update.value
    if value.is_uniform:
        if update.op not in (_Op.ADD, _Op.XOR):
            return value.operand
        count = _active_count(k, kind)
        if update.op is _Op.XOR:
            count = w.pure(f"and {kind} {{}}, 1", count)
        return w.pure(f"mul {kind} {{}}, {{}}", count, value.operand)
    if update.op is _Op.ADD and (ones := k.narrow.get(value.operand)) is not None and ones.bits == 1:
        lanes = k.both(k.mask, ones.operand)
        assert lanes is not None
        return _counted(k, kind, lanes)
    vector = k.vector_type(kind)
    name = update.name
    if update.op in (_Op.MIN, _Op.MAX) and update.element.is_signed:
        name = f"s{name}"
    return w.call(kind, f"vector.reduce.{name}.v{k.lanes}{kind}", (vector, _active_values(k, update)))


def _active_count(k: Kernel, kind: str) -> str:
    """Returns the number of active lanes."""
    if k.mask is None:
        return str(k.lanes)
    return _counted(k, kind, k.mask)


def _counted(k: Kernel, kind: str, mask: str) -> str:
    """Returns the number of lanes of a mask."""
    count = blocks.lane_count(k, mask)
    return count if kind == "i32" else k.w.pure("zext i32 {} to i64", count)


# ---- one element for each lane
def _where_it_changes(k: Kernel, node: Atomic, index: Value, update: _Update) -> None:
    """Updates the elements of those active lanes where the operation changes anything.

    Where other threads use the memory, a lane that would change the value it has found updates the element by an atomic
    instruction; for any other lane, its load is the point in time of an update that changes nothing.  Elsewhere all
    lanes have one operand: those with the same element find the same old value and leave the same new one, so that
    their order and number do not matter.
    """
    w, vector = k.w, k.vector_type(update.kind)
    mask = k.both(k.mask, addressing.lanes_inside(k, node, index))
    numbers, number = addressing.offsets(k, node.buffer, index)
    base = k.base(node.buffer)
    old = gather(k, update.element, base, numbers, number, mask)
    new = update.combine(vector, old, k.vector(update.value))
    changed = k.both(mask, w.pure(f"icmp ne {vector} {{}}, {{}}", old, new))
    assert changed is not None

    def change() -> None:
        if update.is_plain:
            scatter(k, update.element, base, numbers, number, new, changed)
        else:
            _in_a_loop(k, node, index, changed, update)

    blocks.branch(k, k.any(changed), change)


def _lane_by_lane(k: Kernel, node: Atomic, index: Value, update: _Update) -> Value:
    """Lets the active lanes update their elements one after the other."""
    inside = addressing.lanes_inside(k, node, index)
    if k.mask is None and not update.used and inside is not None:
        blocks.branch(
            k,
            k.every(inside),
            lambda: _unrolled(k, node, index, None, update),
            lambda: _in_a_loop(k, node, index, inside, update),
        )
        return literal(update.element, 0)
    if k.mask is None and (inside is None or update.is_plain):
        return _unrolled(k, node, index, inside, update)
    mask = k.both(k.mask, inside)
    assert mask is not None
    if update.used or not update.is_plain:
        return _in_a_loop(k, node, index, mask, update)

    def all_lanes() -> None:
        around, k.mask = k.mask, None
        _unrolled(k, node, index, None, update)
        k.mask = around

    blocks.branch(k, k.every(mask), all_lanes, lambda: _in_a_loop(k, node, index, mask, update))
    return literal(update.element, 0)


def _in_a_loop(k: Kernel, node: Atomic, index: Value, mask: str, update: _Update) -> Value:
    """Updates the elements of the lanes of a mask."""
    w, kind = k.w, update.kind
    numbers, number = addressing.offsets(k, node.buffer, index)
    base = k.base(node.buffer)
    result = Spilled(k, "result", kind, "zeroinitializer") if update.used else None
    place = _reader(k, "index", number, numbers)
    value = _operand(k, "value", update.value)
    expected = _operand(k, "expected", update.expected) if update.expected is not None else None

    def one(lane: str) -> None:
        address = w.pure(f"getelementptr {kind}, ptr {{}}, {number} {{}}", base, place(lane))
        old = update.apply(address, value(lane), expected(lane) if expected is not None else None)
        if result is not None:
            result.put(lane, old)

    for_each_lane(k, mask, one)
    if result is None:
        return literal(update.element, 0)
    return k.varying(update.element, result.vector())


def _operand(k: Kernel, purpose: str, value: Value) -> Callable[[str], str]:
    """Returns what gives the operand of a lane, whose number is an operand."""
    if value.is_uniform:
        return lambda lane: value.operand
    return _reader(k, purpose, SCALAR[value.dtype], k.vector(value))


def _reader(k: Kernel, purpose: str, element: str, vector: str) -> Callable[[str], str]:
    return Spilled(k, purpose, element, vector).lane


def _unrolled(k: Kernel, node: Atomic, index: Value, inside: str | None, update: _Update) -> Value:
    """Updates the elements of all W lanes.

    Lanes that are out of range, if there are any, leave another element as it is: the first one, or a spare one.
    Only plain updates allow that.
    """
    w, kind, lanes = k.w, update.kind, k.lanes
    numbers, number = addressing.offsets(k, node.buffer, index)
    base, numbers_type = k.base(node.buffer), k.vector_type(number)
    if inside is not None:
        numbers = k.chosen(inside, numbers_type, numbers)
        if not k.buffers[node.buffer].count:
            empty = w.pure("icmp eq i64 {}, 0", k.length(node.buffer))
            base = w.pure("select i1 {}, ptr {}, ptr {}", empty, addressing.spare(k), base)
    value, vector = update.value, k.vector_type(kind)
    counted = inside
    if inside is not None and update.identity is not None:
        identity = k.splat(kind, update.identity)
        value, counted = k.varying(update.element, k.chosen(inside, vector, k.vector(value), identity)), None
    results = "poison"
    if number == "i32":  # in range, and so not negative
        places, number = blocks.each_word(k, numbers), "i64"
    else:
        places = [w.pure(f"extractelement {numbers_type} {{}}, i32 {lane}", numbers) for lane in range(lanes)]
    for lane, element in enumerate(places):
        address = w.pure(f"getelementptr {kind}, ptr {{}}, {number} {{}}", base, element)
        counts = None
        if counted is not None:
            counts = w.pure(f"extractelement {k.vector_type('i1')} {{}}, i32 {lane}", counted)
        expected = None if update.expected is None else _lane_of(k, update.expected, lane)
        old = update.apply(address, _lane_of(k, value, lane), expected, counts)
        if update.used:
            results = w.pure(f"insertelement {vector} {{}}, {kind} {{}}, i32 {lane}", results, old)
    if not update.used:
        return literal(update.element, 0)
    if inside is not None:
        results = k.chosen(inside, vector, results)
    return k.varying(update.element, results)


def _lane_of(k: Kernel, value: Value, lane: int) -> str:
    """Returns the operand of one lane."""
    kind = SCALAR[value.dtype]
    if value.is_uniform:
        return value.operand
    if value.shape is Shape.AFFINE:
        distance = (value.stride * lane) & ((1 << value.dtype.bits) - 1)
        return k.w.pure(f"add {kind} {{}}, {distance}", value.operand)
    return k.w.pure(f"extractelement {k.vector_type(kind)} {{}}, i32 {lane}", value.operand)
