"""The compilation of an entry's instructions to basic blocks of steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Final, NamedTuple

from vyre.adapters.cuda.machine.faults import FaultKind, PtxError
from vyre.adapters.cuda.machine.instructions import atomics, convert, copies, floating, integer, memory, moves, warp
from vyre.adapters.cuda.machine.instructions.lanewise import Step, guarded, lanewise
from vyre.adapters.cuda.machine.instructions.operation import LANE_DTYPE, Operation
from vyre.adapters.cuda.machine.launch import Frame, Needs
from vyre.adapters.cuda.machine.operands import Operands, Patch, Symbol
from vyre.adapters.cuda.machine.paths import Paths, paths
from vyre.adapters.cuda.machine.ptx_syntax import EntryText, Instruction

_OPERATIONS: Final = integer.TABLE | floating.TABLE | convert.TABLE
_BUILDERS: Final[dict[str, Callable[[Operands], Step]]] = {
    "mov": moves.build_mov,
    "cvta": moves.build_cvta,
    "nanosleep": moves.build_nanosleep,
    "fence": moves.build_fence,
    "membar": moves.build_fence,
    "ld": memory.build_load,
    "st": memory.build_store,
    "atom": atomics.build_atomic,
    "red": atomics.build_atomic,
    "shfl": warp.build_shuffle,
    "vote": warp.build_vote,
    "match": warp.build_match,
    "redux": warp.build_reduction,
    "activemask": warp.build_activemask,
    "cp": copies.build_copy,
}
_BRANCHES: Final = frozenset({"bra", "bra.uni"})
_TABLE_BRANCHES: Final = frozenset({"brx.idx", "brx.idx.uni"})
_EXITS: Final = frozenset({"ret", "exit"})
_BARRIERS: Final = frozenset({"bar.sync", "barrier.sync", "barrier.sync.aligned"})
_ENDING: Final = _BRANCHES | _TABLE_BRANCHES | _EXITS | _BARRIERS
_STRONG_WORDS: Final = frozenset({"volatile", "relaxed", "acquire", "release"})
_DECIDING_ATOMICS: Final = frozenset({"exch", "cas"})
_BARRIER_IDS: Final = range(16)
END: Final = -1
"""The number of the block that lanes go to when they end."""


class Block(NamedTuple):
    """A basic block: steps that lanes execute together, then a branch, a barrier or the end.

    ``then`` is the block for lanes whose ``guard`` holds (all lanes without a guard), ``following`` the block for the
    others.  ``table`` holds the blocks that a branch by index goes to, and ``selector`` is the register with the index;
    ``table`` is empty if the block has no such branch.  ``size`` counts its instructions.  ``barrier`` is the id of a
    barrier that ends the block, None without one.  ``gathers`` tells that a warp must be complete somewhere in the
    block.  ``reads`` are the registers that it reads before it writes them; ``writes`` are those that it writes for
    later blocks.
    """

    steps: tuple[Step, ...]
    size: int
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    last: Instruction
    guard: int | None
    negated: bool
    then: int
    following: int
    barrier: int | None
    aligned: bool
    gathers: bool
    table: tuple[int, ...] = ()
    selector: int = 0


class Code(NamedTuple):
    """A compiled entry.

    ``order_sensitive`` tells that the order of blocks could affect the result of a program without races.
    """

    blocks: tuple[Block, ...]
    needs: Needs
    patches: tuple[Patch, ...]
    order_sensitive: bool

    def bound(self, addresses: Mapping[str, int]) -> Code:
        """Returns the code with the addresses of module variables filled in."""
        registers = list(self.needs.registers)
        for patch in self.patches:
            dtype = LANE_DTYPE[patch.kind]
            value = addresses[patch.name] + patch.addend
            registers[patch.place] = dtype.type(value & (1 << 8 * dtype.itemsize) - 1)
        return self._replace(needs=self.needs._replace(registers=registers))

    def paths(self) -> Paths:
        """Returns the control flow between the blocks."""
        return paths(tuple(map(_targets, self.blocks)))


def _targets(block: Block) -> tuple[int, ...]:
    ways = tuple(dict.fromkeys(block.table)) or (block.then,)
    return ways if block.guard is None else (*ways, block.following)


@lru_cache(maxsize=256)
def _operation(opcode: str) -> Operation | None:
    operation = _OPERATIONS.get(opcode)
    if operation is None and opcode.startswith("cvt."):
        operation = convert.conversion(opcode)
    return operation


class _Open:
    """A basic block while it is being built."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.count = 0
        self.reads: dict[int, None] = {}
        self.writes: dict[int, None] = {}
        self.gathers = False

    def note(self, reads: list[int], writes: list[int]) -> None:
        """Counts an instruction and records the registers that it reads and writes."""
        self.count += 1
        self.reads.update((place, None) for place in reads if place not in self.writes)
        self.writes.update(dict.fromkeys(writes))


def compile_entry(
    entry: EntryText, symbols: Mapping[str, Symbol], parameter_bytes: int, dynamic_offset: int, local_bytes: int
) -> Code:
    """Returns the code of an entry.  Raises ``PtxError`` for text that the machine does not run."""
    ops = Operands(entry.registers, symbols, parameter_bytes)
    instructions = entry.instructions
    if not instructions:
        raise PtxError(entry.line, f"{entry.name} has no instructions")
    starts = {0, *entry.labels.values()}
    starts.update(number + 1 for number, one in enumerate(instructions) if one.opcode in _ENDING)
    ordered = sorted(start for start in starts if start < len(instructions))
    number_of = {start: number for number, start in enumerate(ordered)}
    labels = {name: number_of.get(start, END) for name, start in entry.labels.items()}
    blocks = []
    atomic_results: list[int] = []
    read_anywhere: set[int] = set()
    strong = False
    operators: set[str] = set()
    for number, start in enumerate(ordered):
        stop = ordered[number + 1] if number + 1 < len(ordered) else len(instructions)
        following = number + 1 if number + 1 < len(ordered) else END
        block = _Open()
        ending: Instruction | None = None
        index: int | None = None
        for instruction in instructions[start:stop]:
            ops.begin(instruction)
            guard = None if instruction.guard is None else ops.guard(instruction.guard)
            if instruction.opcode in _ENDING:
                ending = instruction
                index = _index(ops, entry) if instruction.opcode in _TABLE_BRANCHES else None
                block.note(ops.reads, [])
                break
            step = _build(ops)
            reads, writes = ops.reads, ops.writes
            read_anywhere.update(reads)
            if instruction.opcode.startswith("atom."):
                atomic_results += writes
            strong |= _is_strong(instruction.opcode)
            if instruction.opcode.startswith(("atom.", "red.")):
                operators.add(instruction.opcode.split(".")[-2])
            if guard is not None:
                step = guarded(step, guard, instruction.negated, reads, writes)
                reads = [*reads, *writes]
            block.steps.append(step)
            block.gathers |= ".sync." in instruction.opcode
            block.note(reads, writes)
        closed = _close(block, ending or instructions[stop - 1], ending, following, labels, ops)
        if ending is not None and index is not None:
            closed = closed._replace(table=_table(ops, entry, labels), selector=index)
        blocks.append(closed)
    local = _local_places(blocks)
    blocks = [block._replace(writes=tuple(place for place in block.writes if place not in local)) for block in blocks]
    mixed = len(operators) > 1  # an operator commutes with itself, not with others
    order_sensitive = strong or mixed or any(place in read_anywhere for place in atomic_results)
    needs = Needs(entry.name, ops.values, parameter_bytes, dynamic_offset, local_bytes)
    return Code(tuple(blocks), needs, tuple(ops.patches), order_sensitive)


@cache
def _is_strong(opcode: str) -> bool:
    """Returns whether an instruction is a load or store that synchronises with other lanes, or an atomic whose result
    in memory depends on which lane is last.
    """
    name, *modifiers = opcode.split(".")
    words = {"ld": _STRONG_WORDS, "st": _STRONG_WORDS, "atom": _DECIDING_ATOMICS}.get(name, frozenset())
    return not words.isdisjoint(modifiers)


def _build(ops: Operands) -> Step:
    opcode = ops.instruction.opcode
    operation = _operation(opcode)
    if operation is not None:
        return lanewise(operation, ops, wider=opcode.startswith("cvt.") and opcode not in convert.TABLE)
    if opcode == "trap":
        return _trap(ops.instruction)
    name, *modifiers = opcode.split(".")
    builder = _BUILDERS.get(name)
    if builder is None or not modifiers:
        raise ops.error("unknown instruction")
    return builder(ops)


def _trap(instruction: Instruction) -> Step:
    def step(frame: Frame) -> None:
        raise frame.fault(FaultKind.TRAP, instruction)

    return step


def _close(
    block: _Open, last: Instruction, ending: Instruction | None, following: int, labels: dict[str, int], ops: Operands
) -> Block:
    then, barrier, guard, negated = following, None, None, False
    if ending is not None:
        guard = None if ending.guard is None else ops.reads[0]
        negated = ending.negated
        if ending.opcode in _BRANCHES:
            (label,) = ops.expect(1)
            if label not in labels:
                raise ops.error(f"there is no label {label}")
            then = labels[label]
        elif ending.opcode in _EXITS:
            then = END
        elif ending.opcode not in _TABLE_BRANCHES:
            if guard is not None:
                raise ops.error("a barrier under a predicate")
            (operand,) = ops.expect(1)
            barrier = ops.integer(operand)
            if barrier not in _BARRIER_IDS:
                raise ops.error(f"{operand} is no barrier")
    return Block(
        tuple(block.steps),
        block.count,
        tuple(block.reads),
        tuple(block.writes),
        last,
        guard,
        negated,
        then,
        following,
        barrier,
        last.opcode != "barrier.sync",
        block.gathers or (barrier is not None and last.opcode != "barrier.sync"),
    )


def _index(ops: Operands, entry: EntryText) -> int:
    """Returns the register with the index of a branch by table."""
    index, table = ops.expect(2)
    if table not in entry.tables:
        raise ops.error(f"there is no list of branch targets {table}")
    return ops.source(index, "u32")


def _table(ops: Operands, entry: EntryText, labels: dict[str, int]) -> tuple[int, ...]:
    """Returns the blocks that the list of a branch by table names."""
    names = entry.tables[ops.instruction.operands[1]]
    missing = [name for name in names if name not in labels]
    if missing:
        raise ops.error(f"there is no label {missing[0]}")
    return tuple(labels[name] for name in names)


def _local_places(blocks: list[Block]) -> set[int]:
    """Returns the registers whose value is only used in the block that writes it."""
    writers: dict[int, int] = {}
    shared: set[int] = set()
    for number, block in enumerate(blocks):
        shared.update(block.reads)
        for place in block.writes:
            if writers.setdefault(place, number) != number:
                shared.add(place)
    return set(writers) - shared
