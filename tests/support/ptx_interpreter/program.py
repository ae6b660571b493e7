"""Code for an entry: basic blocks of Python functions, each of which does one instruction for the lanes it is given.

An instruction with an opcode or an operand that is not known raises ``PtxError`` when the entry is prepared, whether it
would be reached or not.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from support.ptx_interpreter.arithmetic import ATOMICS, DTYPES, OPERATIONS
from support.ptx_interpreter.memory import Array
from support.ptx_interpreter.syntax import WIDTHS, Entry, Instruction, PtxError

if TYPE_CHECKING:
    from support.ptx_interpreter.engine import Grid

Step = Callable[[Array], None]
"""Does something for some lanes, in their order."""
Source = Callable[[Array], Array]
"""Returns the value of an operand for some lanes."""

_LOAD: Final = re.compile(
    r"ld(?:\.(?:relaxed|acquire)\.(?:cta|gpu|sys))?\.(global|shared|local|param)(?:\.nc)?(?:\.v([24]))?\.(\w+)"
)
_STORE: Final = re.compile(r"st(?:\.(?:relaxed|release)\.(?:cta|gpu|sys))?\.(global|shared|local)(?:\.v([24]))?\.(\w+)")
_ATOMIC: Final = re.compile(
    r"(atom|red)\.(?:relaxed|acquire|release|acq_rel)\.(?:cta|gpu|sys)\.(global|shared)\.(\w+)\.(\w+)"
)
_FENCE: Final = re.compile(r"fence\.(?:sc|acq_rel)\.(?:cta|gpu|sys)")
_WARP: Final = re.compile(
    r"shfl\.sync\.(?:idx|bfly|up|down)\.b32|redux\.sync\.(?:(?:add|min|max)\.[us]32|(?:and|or|xor)\.b32)"
    r"|vote\.sync\.(?:ballot\.b32|(?:any|all)\.pred)"
)
_REDUCTIONS: Final = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
_ADDRESS: Final = re.compile(r"\[\s*([%$\w]+)\s*(?:\+\s*(-?\w+))?\s*\]")
_INTEGER: Final = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|\d+)U?")
_FLOAT: Final = re.compile(r"0([fF][0-9a-fA-F]{8}|[dD][0-9a-fA-F]{16})")
_SPECIAL: Final = re.compile(r"%(?:tid|ntid|ctaid|nctaid)\.[xyz]|%laneid")


class Block(NamedTuple):
    """Instructions that are entered at the first; ``end`` transfers control or waits, and moves every lane on."""

    steps: tuple[Step, ...]
    end: Step


def blocks_of(entry: Entry, grid: Grid) -> dict[int, Block]:
    """Returns the basic blocks of an entry by the position of their first instruction, bound to a grid."""
    return _Preparation(entry, grid).blocks()


class _Preparation:
    def __init__(self, entry: Entry, grid: Grid) -> None:
        self.entry, self.grid = entry, grid

    def blocks(self) -> dict[int, Block]:
        body = (*self.entry.body, Instruction("ret", ()))  # a body may end without one
        starts = {0, *self.entry.labels.values()}
        ends = {k for k, i in enumerate(body) if self._transfers(i)}
        starts |= {k + 1 for k in ends}
        found: dict[int, Block] = {}
        first = 0
        steps: list[Step] = []
        for at, instruction in enumerate(body):
            if at in ends:
                found[first] = Block(tuple(steps), self._transfer(instruction, at))
            else:
                steps.append(self._guarded(instruction, self._step(instruction)))
                if at + 1 not in starts:
                    continue
                found[first] = Block(tuple(steps), self._falling(at + 1))
            first, steps = at + 1, []
        return found

    # ------------------------------------------------------------ control
    @staticmethod
    def _transfers(instruction: Instruction) -> bool:
        name = instruction.opcode.split(".")[0]
        return name in ("bra", "brx", "ret", "bar", "shfl", "redux", "vote")

    def _falling(self, to: int) -> Step:
        grid = self.grid
        return lambda lanes: grid.jump(lanes, to)

    def _transfer(self, instruction: Instruction, at: int) -> Step:
        grid, opcode, operands = self.grid, instruction.opcode, instruction.operands
        guard = self._guard(instruction)
        if opcode in ("bra", "bra.uni") and len(operands) == 1:
            target, uniform = self._label(operands[0]), opcode == "bra.uni"

            def branch(lanes: Array) -> None:
                taken = guard(lanes)
                if uniform:
                    grid.check_uniform(lanes, taken)
                grid.jump(lanes[taken], target, back=target <= at)
                grid.jump(lanes[~taken], at + 1)

            return branch
        if guard is not _always:
            raise PtxError(f"a guard is not known here: {instruction}")
        if opcode == "ret":
            return grid.leave
        if opcode == "brx.idx" and len(operands) == 2 and operands[1] in self.entry.tables:
            index = self._source(operands[0], "u32")
            targets = np.array([self._label(name) for name in self.entry.tables[operands[1]]])

            def indexed(lanes: Array) -> None:
                chosen = np.broadcast_to(index(lanes), lanes.shape).astype(np.int64)
                if (chosen >= len(targets)).any():
                    raise PtxError(f"an index is outside its list of targets: {instruction}")
                for target in np.unique(targets[chosen]):
                    grid.jump(lanes[targets[chosen] == target], int(target), back=target <= at)

            return indexed
        if opcode == "bar.sync" and operands == ("0",):
            return lambda lanes: grid.arrive_at_barrier(lanes, at)
        if _WARP.fullmatch(opcode):
            return self._of_warp(instruction, at)
        raise PtxError(f"unknown instruction: {instruction}")

    def _of_warp(self, instruction: Instruction, at: int) -> Step:
        """Instructions in which the lanes of a warp that ``membermask`` names wait for each other."""
        grid, (target, *operands) = self.grid, instruction.operands
        name, _, mode, kind = instruction.opcode.split(".")
        types = {"shfl": ("b32", "u32", "u32", "u32"), "redux": (kind, "u32"), "vote": ("pred", "u32")}[name]
        *values, members = self._sources(instruction, operands, types)
        write = self._target(target, kind)

        def together(lanes: Array) -> None:
            """Does it for the participating lanes of one warp, in ascending order."""
            number = grid.warp_lane[lanes].astype(np.int64)
            if name == "redux":
                each = np.broadcast_to(values[0](lanes), lanes.shape)
                write(lanes, np.full(lanes.size, _REDUCTIONS[mode].reduce(each, dtype=each.dtype)))
            elif mode in ("any", "all"):
                each = np.broadcast_to(values[0](lanes), lanes.shape)
                write(lanes, np.full(lanes.size, each.any() if mode == "any" else each.all()))
            elif name == "vote":
                bits = np.bitwise_or.reduce(values[0](lanes).astype(np.uint32) << number.astype(np.uint32))
                write(lanes, np.full(lanes.size, bits, np.uint32))
            else:
                register = grid.noise.integers(1 << 32, size=32, dtype=np.uint32)  # of lanes that take no part
                register[number] = values[0](lanes)
                b, c = (v(lanes).astype(np.int64) for v in values[1:])
                write(lanes, register[_source_lanes(mode, number, b & 31, c)])

        return lambda lanes: grid.arrive_in_warp(lanes, at, members, together)

    # ------------------------------------------------------------ instructions that fall through
    def _step(self, instruction: Instruction) -> Step:
        opcode, operands = instruction.opcode, instruction.operands
        if opcode in ("mov.b32", "mov.b64") and any(text.startswith("{") for text in operands):
            return self._moved_vector(instruction)
        if operation := OPERATIONS.get(opcode):
            function = operation.function
            sources = self._sources(instruction, operands[1:], operation.sources)
            write = self._target(operands[0], operation.result)
            return lambda lanes: write(lanes, function(*[source(lanes) for source in sources]))
        if opcode == "cvta.to.global.u64" and len(operands) == 2:
            # The generic address of a place in global memory is its address there (5.1.4).
            address, write = self._source(operands[1], "u64"), self._target(operands[0], "u64")
            return lambda lanes: write(lanes, address(lanes))
        if (found := _LOAD.fullmatch(opcode)) and found[3] in WIDTHS and len(operands) == 2:
            return self._load(instruction, found[1], int(found[2] or 1), found[3])
        if (found := _STORE.fullmatch(opcode)) and found[3] in WIDTHS and len(operands) == 2:
            return self._store(instruction, found[1], int(found[2] or 1), found[3])
        if (found := _ATOMIC.fullmatch(opcode)) and found[4] in ATOMICS.get(found[3], ((),))[0]:
            return self._atomic(instruction, found[2], found[3], found[4], silent=found[1] == "red")
        if opcode == "activemask.b32" and len(operands) == 1:
            grid, write = self.grid, self._target(operands[0], "b32")
            return lambda lanes: write(lanes, grid.active(lanes))
        if _FENCE.fullmatch(opcode) and not operands:
            return lambda lanes: None  # memory is sequentially consistent here
        raise PtxError(f"unknown instruction: {instruction}")

    def _moved_vector(self, instruction: Instruction) -> Step:
        """``mov`` between a register and two of half its width, the first of which has the low bits."""
        whole = instruction.opcode.removeprefix("mov.")
        half = f"b{4 * WIDTHS[whole]}"
        if len(instruction.operands) != 2 or instruction.operands[0].startswith("{") == instruction.operands[
            1
        ].startswith("{"):
            raise PtxError(f"unknown operands: {instruction}")
        target, value = instruction.operands
        wide, narrow = DTYPES[whole], DTYPES[half]
        shift = wide.type(8 * narrow.itemsize)
        if value.startswith("{"):
            low, high = (self._source(name, half) for name in self._vector(value, 2))
            write = self._target(target, whole)
            return lambda lanes: write(lanes, high(lanes).astype(wide) << shift | low(lanes))
        first, second = (self._target(name, half) for name in self._vector(target, 2))
        source = self._source(value, whole)

        def apart(lanes: Array) -> None:
            bits = source(lanes)
            first(lanes, bits.astype(narrow))
            second(lanes, (bits >> shift).astype(narrow))

        return apart

    def _load(self, instruction: Instruction, space: str, count: int, kind: str) -> Step:
        dtype = DTYPES[kind]
        targets = self._vector(instruction.operands[0], count)
        # A register may be wider than what is loaded; then the value is extended by its sign (9.4.1).
        writes = [self._target(name, self._widened(name, kind)) for name in targets]
        kinds = [DTYPES[self._widened(name, kind)] for name in targets]
        places = self._places(instruction.operands[1], space, count * dtype.itemsize)
        memory = self.grid.spaces[space]

        def load(lanes: Array) -> None:
            at = places(lanes)
            found = [memory.load(at + k * dtype.itemsize, dtype) for k in range(count)]
            for write, value, wide in zip(writes, found, kinds, strict=True):
                write(lanes, value.astype(wide))

        return load

    def _store(self, instruction: Instruction, space: str, count: int, kind: str) -> Step:
        dtype = DTYPES[kind]
        names = self._vector(instruction.operands[1], count)
        # A register may be wider than what is stored; then its low bits are (9.4.1).
        wide = [self._widened(name, kind) for name in names]
        sources = [self._source(name, w) for name, w in zip(names, wide, strict=True)]
        places = self._places(instruction.operands[0], space, count * dtype.itemsize)
        memory = self.grid.spaces[space]

        def store(lanes: Array) -> None:
            at = places(lanes)
            for k, source in enumerate(sources):
                memory.store(at + k * dtype.itemsize, source(lanes).astype(dtype))

        return store

    def _atomic(self, instruction: Instruction, space: str, name: str, kind: str, *, silent: bool) -> Step:
        function, dtype, operands = ATOMICS[name][1], DTYPES[kind], list(instruction.operands)
        write = None if silent else self._target(operands.pop(0), kind)
        wanted = 2 if name == "cas" else 1
        if len(operands) != 1 + wanted or (silent and name in ("exch", "cas")):
            raise PtxError(f"unknown instruction: {instruction}")
        places = self._places(operands[0], space, dtype.itemsize)
        sources = [self._source(text, kind) for text in operands[1:]]
        memory, mask = self.grid.spaces[space], (1 << 8 * dtype.itemsize) - 1

        def update(lanes: Array) -> None:
            words = memory.bytes.view(dtype)
            raw = memory.bytes.view(f"u{dtype.itemsize}")
            old = np.empty(lanes.size, dtype)
            values = zip(*[np.broadcast_to(s(lanes), lanes.shape).tolist() for s in sources], strict=True)
            for k, (at, given) in enumerate(zip((places(lanes) // dtype.itemsize).tolist(), values, strict=True)):
                old[k] = words[at]
                raw[at] = function(int(old[k]), *given) & mask
            if write is not None:
                write(lanes, old)

        return update

    # ------------------------------------------------------------ operands
    def _guarded(self, instruction: Instruction, step: Step) -> Step:
        if instruction.guard is None:
            return step
        guard = self._guard(instruction)

        def some(lanes: Array) -> None:
            chosen = lanes[guard(lanes)]
            if chosen.size:
                step(chosen)

        return some

    def _guard(self, instruction: Instruction) -> Source:
        if instruction.guard is None:
            return _always
        predicate, negated = self._source(instruction.guard, "pred"), instruction.negated
        return lambda lanes: predicate(lanes) != negated

    def _label(self, name: str) -> int:
        if name not in self.entry.labels:
            raise PtxError(f"no label {name}")
        return self.entry.labels[name]

    def _vector(self, text: str, count: int) -> list[str]:
        names = [name.strip() for name in text.strip("{}").split(",")]
        if len(names) != count:
            raise PtxError(f"a vector of {count} is expected: {text}")
        return names

    def _widened(self, name: str, kind: str) -> str:
        """Returns the type of an access's value in a register that may be wider than the memory."""
        declared = self.entry.registers.get(name)
        if declared is None or WIDTHS[declared] <= WIDTHS[kind] or kind[0] == "f":
            return kind
        return f"{kind[0]}{8 * WIDTHS[declared]}"

    def _sources(
        self, instruction: Instruction, texts: list[str] | tuple[str, ...], types: tuple[str, ...]
    ) -> list[Source]:
        if len(texts) != len(types):
            raise PtxError(f"{len(types)} operands are expected: {instruction}")
        return [self._source(text, kind) for text, kind in zip(texts, types, strict=True)]

    def _source(self, text: str, kind: str) -> Source:
        dtype = DTYPES[kind]
        if text in self.entry.registers:
            register = self._register(text, kind)
            return lambda lanes: register[lanes].view(dtype)
        if _SPECIAL.fullmatch(text) and kind in ("u32", "b32"):
            special = self.grid.special[text]
            return lambda lanes: special[lanes]
        if text in self.grid.symbols:
            bits = self.grid.symbols[text]
        elif _INTEGER.fullmatch(text) and kind[0] != "f":
            bits = int(text.rstrip("U"), 0)
            if not -(1 << 8 * dtype.itemsize - 1) <= bits < 1 << 8 * dtype.itemsize:
                raise PtxError(f"{text} is no value of {kind}")
        elif _FLOAT.fullmatch(text) and kind == ("f32" if text[1] in "fF" else "f64"):
            bits = int(text[2:], 16)
        else:
            raise PtxError(f"unknown operand of type {kind}: {text}")
        width = dtype.itemsize
        constant = np.array([bits & (1 << 8 * width) - 1], f"u{width}").view(dtype)
        return lambda lanes: constant

    def _target(self, name: str, kind: str) -> Callable[[Array, Array], None]:
        register = self._register(name, kind)
        dtype = register.dtype

        def write(lanes: Array, value: Array) -> None:
            register[lanes] = value.view(dtype)

        return write

    def _register(self, name: str, kind: str) -> Array:
        declared = self.entry.registers.get(name)
        if declared is None or (declared == "pred") != (kind == "pred") or WIDTHS[declared] != WIDTHS[kind]:
            raise PtxError(f"{name} is no register of {WIDTHS[kind]} bytes for a value of type {kind}")
        return self.grid.registers[name]

    def _places(self, text: str, space: str, width: int) -> Source:
        """Returns the byte offsets in ``space`` that an address operand means."""
        found = _ADDRESS.fullmatch(text)
        if found is None:
            raise PtxError(f"unknown address: {text}")
        name, offset = found[1], int(found[2] or "0", 0)
        base = self._source(name, "u64" if WIDTHS[self.entry.registers.get(name, "b32")] == 8 else "u32")
        memory, regions = self.grid.spaces[space], self.grid.regions[space]

        def places(lanes: Array) -> Array:
            addresses = base(lanes)
            return memory.places(regions[lanes], addresses.astype(np.int64) + offset, width)

        return places


def _always(lanes: Array) -> Array:
    return np.ones(lanes.size, np.bool_)


def _source_lanes(mode: str, lane: Array, b: Array, c: Array) -> Array:
    """Returns the lane that each lane of a ``shfl`` reads; ``c`` holds a clamp and a mask of segments."""
    clamp, mask = c & 31, c >> 8 & 31
    most, least = lane & mask | clamp & ~mask, lane & mask
    j = {"idx": least | b & ~mask, "up": lane - b, "down": lane + b, "bfly": lane ^ b}[mode]
    return np.where(j >= most if mode == "up" else j <= most, j, lane)
