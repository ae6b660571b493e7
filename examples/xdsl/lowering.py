"""Lowers functions of MLIR to programs of ``vyre.ir``: a kernel of ``gpu``, or a function of ``func`` as one lane.

A memref is a view of a buffer; what its type does not say about its shape is a parameter, which the launch passes.
"""

from __future__ import annotations  # noqa: I001

from collections.abc import Sequence
from itertools import count
from math import prod
from typing import Any, Final, NamedTuple

import operators
from flow import Structured

# fmt: off
from operations import (
    ATOMIC_KINDS, CONSTANTS, TERMINATORS, Malformed, Refused, Shape, attribute, constant, entry, groups, integers,
    name_of, number, place_of, stored, symbol, word,
)
# fmt: on
from operators import held, literal
from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType
from xdsl.ir import Block, Operation, Region, SSAValue

# fmt: off
from vyre.ir import (
    Access, Atomic, AtomicOp, Binary, Cast, EventBuilder, Expr, IdKind, LaunchId, Literal, Load, MemoryKind,
    Program, Select, Store, SubgroupLane, SubgroupOp, SubgroupReduce, SubgroupShuffle, Unary, UnaryOp, Var,
    unique_expressions, walk_statements, BinaryOp as B, ScalarType as S,
)
# fmt: on

IDS: Final = {"gpu.thread_id": IdKind.LOCAL, "gpu.block_id": IdKind.GROUP, "gpu.grid_dim": IdKind.NUM_GROUPS,
              "gpu.global_id": IdKind.GLOBAL}  # fmt: skip
IGNORED: Final = ("memref.dealloc", "memref.assume_alignment", "memref.prefetch", "gpu.module_end", "gpu.dealloc")
ATOMICS: Final = {
    "addi": AtomicOp.ADD, "maxsi": AtomicOp.MAX, "minsi": AtomicOp.MIN, "ori": AtomicOp.OR, "andi": AtomicOp.AND,
}  # fmt: skip
REDUCTIONS: Final = {
    "add": ("addi", "addf"), "mul": ("muli", "mulf"), "min": ("minsi", "minf"), "max": ("maxsi", "maxf"),
    "minsi": ("minsi", ""), "maxsi": ("maxsi", ""), "minui": ("minui", ""), "maxui": ("maxui", ""),
    "minnumf": ("", "minnumf"), "maxnumf": ("", "maxnumf"), "minimumf": ("", "minimumf"), "maximumf": ("", "maximumf"),
    "and": ("andi", ""), "or": ("ori", ""), "xor": ("xori", ""),
}  # fmt: skip
"""The operator of each reduction of ``gpu.all_reduce``, of integers and of floats."""
SUBGROUP: Final = 32


class Parameter(NamedTuple):
    """The source of a buffer: a part of the argument ``number``, or of a global of the module."""

    buffer: str
    source: int | str
    part: str = "data"  # or "offset", "size", "stride" of a memref
    axis: int = 0


class Kernel(NamedTuple):
    """A program with its parameters, the buffers that it writes, and those that hold results."""

    program: Program
    parameters: list[Parameter]
    written: list[str]
    results: list[str]


class View(NamedTuple):
    """A memref: element ``i, j`` lies at ``offset + i * strides[0] + j * strides[1]`` of a buffer."""

    buffer: str
    element: S
    offset: Expr
    sizes: list[Expr]
    strides: list[Expr]


ZERO, ONE = Literal.of(S.I64, 0), Literal.of(S.I64, 1)


def add(x: Expr, y: Expr) -> Expr:
    """Returns a sum of indices."""
    return y if x == ZERO else x if y == ZERO else Binary(B.ADD, x, y)


def mul(x: Expr, y: Expr) -> Expr:
    """Returns a product of indices."""
    return ZERO if ZERO in (x, y) else y if x == ONE else x if y == ONE else Binary(B.MUL, x, y)


def index(value: int) -> Literal:
    return Literal.of(S.I64, value)


def u32(value: int) -> Literal:
    return Literal.of(S.U32, value)


def static(buffer: str, shape: Shape) -> View:
    """Returns the view of a buffer whose shape is known."""
    sizes, strides = ([index(each) for each in part if each is not None] for part in (shape.sizes, shape.strides))
    return View(buffer, shape.element, index(shape.offset or 0), list[Expr](sizes), list[Expr](strides))


def lower(func: Operation, functions: dict[str, Operation], workgroup: tuple[int, int, int] = (1, 1, 1)) -> Kernel:
    """Returns the program of a function for workgroups of a size.

    ``functions`` has the functions that it may call by name.  Raises ``Refused`` with the operation that no program
    has, and ``vyre.VyreError`` where the validator refuses the whole.
    """
    written = Lowering(func, functions, workgroup, None).kernel().written  # what is stored to is known at the end
    return Lowering(func, functions, workgroup, written).kernel()


class Lowering:
    """The program of a function in the making; ``written`` are the buffers that it writes, None if all may be."""

    def __init__(
        self, func: Operation, functions: dict[str, Operation], workgroup: tuple[int, int, int],
        written: list[str] | None,
    ) -> None:  # fmt: skip
        self.func, self.functions, self.workgroup, self.written = func, functions, workgroup, written
        self.builder = EventBuilder(symbol(func), workgroup=workgroup, loc=place_of(func))
        self.values: dict[SSAValue, Any] = {}  # an expression or a View
        self.parameters: list[Parameter] = []
        self.numbers = count()
        self.escaping: dict[SSAValue, Var] = {}  # values of a loop of blocks that are used behind it
        self.at, self.calls = func, 0

    def kernel(self) -> Kernel:
        block = entry(self.func, self.func.regions[0])
        inputs = len(attribute(self.func, "function_type").inputs)
        shared = int(number(self.func, "workgroup_attributions") or 0)
        for place, argument in enumerate(block.args):
            if place >= inputs:
                access = Access.WORKGROUP if place < inputs + shared else Access.PRIVATE
                self.values[argument] = self.memory(self.func, argument.type, access)
            elif isinstance(argument.type, MemRefType):
                self.values[argument] = self.parameter(self.func, argument.type, f"arg{place}", place)
            else:
                name, element = f"arg{place}", stored(self.func, argument.type)
                self.values[argument] = self.scalar(element, Parameter(name, place))
        types, results = attribute(self.func, "function_type").outputs.data, list[str]()
        for type_, value in zip(types, self.region(self.func, self.func.regions[0]), strict=True):
            results.append(f"result{len(results)}")
            self.builder.buffer(results[-1], stored(self.func, type_), Access.READ_WRITE, 1)
            self.builder.store(results[-1], u32(0), value, loc=place_of(self.at))
        program = self.builder.build()
        touched = {each.buffer for each in walk_statements(program.body) if isinstance(each, Store)}
        touched |= {each.buffer for each in unique_expressions(program) if isinstance(each, Atomic)}
        return Kernel(program, self.parameters, [p.buffer for p in self.parameters if p.buffer in touched], results)

    # -- parameters and memory ------------------------------------------------------------------------

    def parameter(self, op: Operation, type_: Any, name: str, source: int | str) -> View:
        """Returns the view of memory that a launch passes."""
        shape = Shape(op, type_)
        writes = self.written is None or name in self.written
        self.builder.buffer(name, shape.element, Access.READ_WRITE if writes else Access.READ_ONLY, shape.count)
        self.parameters.append(Parameter(name, source))

        def known(value: int | None, part: str, axis: int = 0) -> Expr:
            if value is not None:
                return index(value)
            return self.scalar(S.I64, Parameter(f"{name}_{part}{axis}", source, part, axis))

        return View(
            name, shape.element, known(shape.offset, "offset"),
            [known(size, "size", axis) for axis, size in enumerate(shape.sizes)],
            [known(stride, "stride", axis) for axis, stride in enumerate(shape.strides)],
        )  # fmt: skip

    def scalar(self, element: S, parameter: Parameter) -> Expr:
        """Returns a number that a launch passes; one of 8 or 16 bits comes as the type that holds it."""
        self.builder.buffer(parameter.buffer, held(element), Access.UNIFORM, 1, kind=MemoryKind.PUSH)
        self.parameters.append(parameter)
        return Load(parameter.buffer, u32(0))

    def memory(self, op: Operation, type_: Any, access: Access) -> View:
        """Returns the view of memory of a workgroup or of a lane."""
        shape = Shape(op, type_)
        if shape.count is None:
            raise Refused(op, "memory whose size is known at run time only", "give it static sizes")
        name = f"{access.name.lower()}{next(self.numbers)}"
        self.builder.buffer(name, shape.element, access, shape.count)
        return static(name, shape)

    def address(self, view: View, indices: Sequence[Expr]) -> Expr:
        total = view.offset
        for each, stride in zip(indices, view.strides, strict=True):
            total = add(total, mul(each, stride))
        return total

    # -- statements -----------------------------------------------------------------------------------

    def named(self, value: Expr | View) -> Var:
        """Returns a local with a value, which is computed here."""
        if isinstance(value, View):
            raise Refused(self.at, "memory that a loop or a branch passes on", "pass it as an argument")
        var = Var(f"v{next(self.numbers)}")
        self.builder.let(var.name, value, loc=place_of(self.at))
        return var

    def set(self, op: Operation, values: list[Expr]) -> None:
        for result, value in zip(op.results, values, strict=True):
            self.values[result] = self.named(value)

    def of(self, values: Any) -> list[Any]:
        return [self.values[value] for value in values]

    def assign(self, variables: list[Var], values: list[Expr]) -> None:
        """Gives locals new values, all of which are read before."""
        if len(values) > 1:
            values = [self.named(value) for value in values]
        for var, value in zip(variables, values, strict=True):
            self.builder.assign(var.name, value, loc=place_of(self.at))

    def variables(self, op: Operation) -> list[Var]:
        """Returns locals for the results of an operation, whose bodies assign them."""
        return [self.named(literal(stored(op, each.type), 0)) for each in op.results]

    def region(self, op: Operation, region: Region) -> list[Any]:
        """Lowers a region whose arguments have their values, and returns what it gives."""
        block = entry(op, region)
        return Structured(self, region).run() if len(region.blocks) > 1 else self.of(self.block(block).operands)

    def block(self, block: Block) -> Operation:
        """Lowers the operations of a block, and returns the last one, which ends it."""
        op: Operation
        for op in block.ops:
            self.at = op
            if op.next_op is None and (op.successors or name_of(op) in TERMINATORS):
                return op
            self.lower(op)
            self.escape(op.results)
        raise Refused(self.at, "a body without an end that is known here", "end it with scf.yield or a return")

    def escape(self, values: Any) -> None:
        """Keeps values of a loop that are used behind it in their locals."""
        for value in values:
            if value in self.escaping:
                self.assign([self.escaping[value]], [self.values[value]])

    def body(self, op: Operation, region: int, arguments: list[Any], into: list[Var]) -> None:
        """Lowers a body of an operation and assigns what it yields."""
        self.assign(into, self.given(op, op.regions[region], arguments))

    def given(self, op: Operation, region: Region, arguments: list[Any]) -> list[Any]:
        """Lowers a region for some arguments, and returns what it gives."""
        self.values.update(zip(entry(op, region).args, arguments, strict=True))
        return self.region(op, region)

    def open_endless_loop(self) -> None:
        """Opens a loop that only a break ends; vyre's run 2^32 - 1 times at most."""
        self.builder.for_(f"i{next(self.numbers)}", u32(0), u32(0xFFFF_FFFF), loc=place_of(self.at))

    def lower(self, op: Operation) -> None:
        """Lowers one operation."""
        name = name_of(op)
        handler = getattr(self, "lower_" + name.replace(".", "_"), None)
        if name in IGNORED and not op.results:
            pass
        elif handler is not None:
            handler(op)
        elif name in CONSTANTS:
            value = number(op, "value")
            if value is None:
                raise Refused(op, "a constant that is no number", "use scalars")
            self.values[op.results[0]] = literal(stored(op, op.results[0].type), value)
        elif (place := self.place(op)) is not None:
            self.values[op.results[0]] = place
        elif name.startswith(("arith.", "math.", "index.")):
            self.set(op, operators.lowered(op, self.of(op.operands)))
        else:
            raise Refused(
                op, "no such operation here", "lower it to gpu, arith, math, scf, memref, func or index first"
            )

    def lower_func_call(self, op: Operation) -> None:
        callee = self.functions.get(word(op, "callee"))
        if callee is None or not callee.regions[0].blocks or self.calls > 8:
            raise Refused(op, "a call of a function without a body, or of itself", "define it, without recursion")
        self.calls += 1
        given = self.given(callee, callee.regions[0], self.of(op.operands))
        self.values.update(zip(op.results, given, strict=True))
        self.calls -= 1

    # -- scf ------------------------------------------------------------------------------------------

    def lower_scf_for(self, op: Operation) -> None:
        bounds, carried = self.of(op.operands[:3]), [self.named(each) for each in self.of(op.operands[3:])]
        var = Var(f"i{next(self.numbers)}")
        self.builder.for_(var.name, *bounds, loc=place_of(op))
        self.body(op, 0, [var, *carried], carried)
        self.builder.close()
        self.values.update(zip(op.results, carried, strict=True))

    def lower_scf_if(self, op: Operation) -> None:
        results = self.variables(op)
        self.builder.if_(self.values[op.operands[0]], loc=place_of(op))
        self.body(op, 0, [], results)
        if op.regions[1].blocks:
            self.builder.else_()
            self.body(op, 1, [], results)
        self.builder.close()
        self.values.update(zip(op.results, results, strict=True))

    def lower_scf_index_switch(self, op: Operation) -> None:
        results, cases = self.variables(op), integers(op, "cases")
        for case, region in zip(cases, op.regions[1:], strict=True):
            self.builder.if_(Binary(B.EQ, self.values[op.operands[0]], index(case)), loc=place_of(op))
            self.assign(results, self.region(op, region))
            self.builder.else_()
        self.body(op, 0, [], results)
        for _ in cases:
            self.builder.close()
        self.values.update(zip(op.results, results, strict=True))

    def lower_scf_while(self, op: Operation) -> None:
        carried, results = [self.named(each) for each in self.of(op.operands)], self.variables(op)
        self.open_endless_loop()
        condition, *passed = self.given(op, op.regions[0], carried)
        self.assign(results, passed)
        self.builder.if_(Unary(UnaryOp.LOGICAL_NOT, condition))
        self.builder.break_()
        self.builder.close()
        self.body(op, 1, results, carried)
        self.builder.close()
        self.values.update(zip(op.results, results, strict=True))

    def lower_scf_parallel(self, op: Operation) -> None:
        """The rounds run in ascending order, the last axis fastest, and each is combined with those before it."""
        block = entry(op, op.regions[0])
        axes = len(block.args)
        values = self.of(op.operands)
        totals = [self.named(each) for each in values[3 * axes :]]
        for axis, argument in enumerate(block.args):
            self.values[argument] = Var(f"i{next(self.numbers)}")
            self.builder.for_(self.values[argument].name, *values[axis : 3 * axes : axes], loc=place_of(op))
        ending = self.block(block)
        parts = self.of(ending.operands)
        combined = [
            self.given(ending, region, [total, part])[0]
            for total, part, region in zip(totals, parts, ending.regions, strict=True)
        ]
        self.assign(totals, combined)
        for _ in range(axes):
            self.builder.close()
        self.values.update(zip(op.results, totals, strict=True))

    def lower_scf_execute_region(self, op: Operation) -> None:
        self.body(op, 0, [], results := self.variables(op))
        self.values.update(zip(op.results, results, strict=True))

    # -- gpu ------------------------------------------------------------------------------------------

    def lane(self) -> Expr:
        """Returns the number of the lane in its workgroup."""
        x, y, z = (LaunchId(IdKind.LOCAL, axis) for axis in range(3))
        plane = Binary(B.MUL, z, u32(self.workgroup[0] * self.workgroup[1]))
        return Binary(B.ADD, x, Binary(B.ADD, Binary(B.MUL, y, u32(self.workgroup[0])), plane))

    def lanes(self) -> int:
        return prod(self.workgroup)

    def place(self, op: Operation) -> Expr | None:
        """Returns the number that an operation of ``gpu`` has for the place of a lane, or None for other operations."""
        axis = "xyz".find(word(op, "dimension") or "x")
        match name_of(op):
            case "gpu.block_dim":
                return index(self.workgroup[axis])
            case "gpu.subgroup_size":
                return index(SUBGROUP)
            case "gpu.num_subgroups":
                return index(-(-self.lanes() // SUBGROUP))
            case "gpu.lane_id":
                return Cast(S.I64, SubgroupLane())
            case "gpu.subgroup_id":
                return Cast(S.I64, Binary(B.DIV, self.lane(), u32(SUBGROUP)))
            case name if name in IDS:
                return Cast(S.I64, LaunchId(IDS[name], axis))
        return None

    def lower_gpu_barrier(self, op: Operation) -> None:
        self.builder.barrier(loc=place_of(op))

    def lower_gpu_all_reduce(self, op: Operation) -> None:
        """Every lane combines the values of all in their order, so that the answer has one value only."""
        type_ = stored(op, op.operands[0].type)
        memory = f"reduced{next(self.numbers)}"
        self.builder.buffer(memory, type_, Access.WORKGROUP, self.lanes())
        self.builder.store(memory, self.lane(), self.values[op.operands[0]], loc=place_of(op))
        self.builder.barrier(loc=place_of(op))
        total, var = self.named(Load(memory, u32(0))), Var(f"i{next(self.numbers)}")
        self.builder.for_(var.name, u32(1), u32(self.lanes()))
        self.assign([total], [self.combined(op, type_, total, self.named(Load(memory, var)))])
        self.builder.close()
        self.builder.barrier()
        self.values[op.results[0]] = total

    def combined(self, op: Operation, type_: S, x: Expr, y: Expr) -> Expr:
        if op.regions[0].blocks:
            result: Expr = self.given(op, op.regions[0], [x, y])[0]
            return result
        name = reduction(op, type_)
        return (operators.floating if type_.is_float else operators.integer)(name, type_, x, y)

    def lower_gpu_subgroup_reduce(self, op: Operation) -> None:
        type_ = stored(op, op.operands[0].type)
        if reduction(op, type_) not in ("addi", "addf") or not type_.is_executable or attribute(op, "cluster_size"):
            raise Refused(op, "a reduction of a subgroup other than a sum of 32 or 64 bits", "use gpu.all_reduce")
        self.set(op, [SubgroupReduce(SubgroupOp.ADD, self.values[op.operands[0]])])

    def lower_gpu_shuffle(self, op: Operation) -> None:
        """A value from a lane that takes no part is 0, where MLIR does not define it."""
        value, offset, lanes = self.of(op.operands)
        lane: Expr = Cast(S.I32, SubgroupLane())
        mode = word(op, "mode")
        if mode not in (modes := {"xor": B.BIT_XOR, "up": B.SUB, "down": B.ADD, "idx": B.ADD}):
            raise Refused(op, f"a shuffle {mode}", "use xor, up, down or idx")
        target = self.named(offset if mode == "idx" else Binary(modes[mode], lane, offset))
        inside = Binary(B.AND, Binary(B.GE, target, Literal.of(S.I32, 0)), Binary(B.LT, target, lanes))
        valid = self.named(inside)
        moved = self.named(SubgroupShuffle(self.named(value), Cast(S.U32, target)))
        self.values[op.results[0]] = self.named(Select(valid, moved, literal(stored(op, op.operands[0].type), 0)))
        self.values[op.results[1]] = valid

    # -- memref ---------------------------------------------------------------------------------------

    def lower_memref_load(self, op: Operation) -> None:
        view, *indices = self.of(op.operands)
        self.set(op, [Load(view.buffer, self.address(view, indices))])

    def lower_memref_store(self, op: Operation) -> None:
        value, view, *indices = self.of(op.operands)
        self.builder.store(view.buffer, self.address(view, indices), value, loc=place_of(op))

    def lower_memref_dim(self, op: Operation) -> None:
        axis, view = constant(op.operands[1]), self.values[op.operands[0]]
        if axis is None or not 0 <= axis < len(view.sizes):
            raise Refused(op, "the size of an axis that is no constant", "pass an axis of the memref")
        self.values[op.results[0]] = view.sizes[axis]

    def lower_memref_cast(self, op: Operation) -> None:
        self.values[op.results[0]] = self.values[op.operands[0]]

    lower_memref_memory_space_cast = lower_memref_cast
    lower_memref_assume_alignment = lower_memref_cast

    def lower_memref_expand_shape(self, op: Operation) -> None:
        """A size that no type says is passed, or what is left of the axis that is split."""
        view, *passed = self.of(op.operands)
        known, given = Shape(op, op.results[0].type).sizes, iter(passed)
        sizes, strides = list[Expr]([ONE] * len(known)), list[Expr]([ONE] * len(known))
        for source, group in enumerate(groups(op)):
            stride = view.strides[source]
            left = Binary(B.DIV, view.sizes[source], index(prod(known[axis] or 1 for axis in group)))
            for axis in group:
                size = known[axis]
                sizes[axis] = index(size) if size is not None else next(given, left)
            for axis in reversed(group):
                strides[axis], stride = stride, mul(stride, sizes[axis])
        self.values[op.results[0]] = View(view.buffer, view.element, view.offset, sizes, strides)

    def lower_memref_collapse_shape(self, op: Operation) -> None:
        """An axis that is made of some has the stride of the last of them that is not of size 1."""
        view = self.values[op.operands[0]]
        known = Shape(op, op.operands[0].type).sizes
        sizes, strides = list[Expr](), list[Expr]()
        for group in groups(op):
            size: Expr = ONE
            for axis in group:
                size = mul(size, view.sizes[axis])
            sizes.append(size)
            strides.append(view.strides[next((axis for axis in reversed(group) if known[axis] != 1), group[-1])])
        self.values[op.results[0]] = View(view.buffer, view.element, view.offset, sizes, strides)

    def lower_memref_alloc(self, op: Operation) -> None:
        type_ = op.results[0].type
        in_workgroup = Shape(op, type_).in_workgroup
        self.values[op.results[0]] = self.memory(op, type_, Access.WORKGROUP if in_workgroup else Access.PRIVATE)

    lower_memref_alloca = lower_memref_alloc

    def lower_memref_get_global(self, op: Operation) -> None:
        name = word(op, "name")
        if not any(each.source == name for each in self.parameters):
            self.parameter(op, op.results[0].type, f"global_{name}", name)
        shape = Shape(op, op.results[0].type)
        self.values[op.results[0]] = static(f"global_{name}", shape)

    def lower_memref_subview(self, op: Operation) -> None:
        view, *rest = self.of(op.operands)
        offsets, sizes, strides = self.slices(op, rest)
        offset = view.offset
        for each, stride in zip(offsets, view.strides, strict=True):
            offset = add(offset, mul(each, stride))
        strides = [mul(each, stride) for each, stride in zip(strides, view.strides, strict=True)]
        kept = kept_axes(op)
        self.values[op.results[0]] = View(
            view.buffer, view.element, offset, [sizes[axis] for axis in kept], [strides[axis] for axis in kept]
        )

    def lower_memref_reinterpret_cast(self, op: Operation) -> None:
        view, *rest = self.of(op.operands)
        (offset,), sizes, strides = self.slices(op, rest)
        self.values[op.results[0]] = View(view.buffer, view.element, offset, sizes, strides)

    def slices(self, op: Operation, dynamic: list[Expr]) -> list[list[Expr]]:
        """Returns offsets, sizes and strides, of which some are operands."""
        operands = iter(dynamic)
        return [
            [next(operands) if each == DYNAMIC_INDEX else index(each) for each in integers(op, f"static_{part}")]
            for part in ("offsets", "sizes", "strides")
        ]

    def lower_memref_copy(self, op: Operation) -> None:
        source, target = self.of(op.operands)
        variables = [Var(f"i{next(self.numbers)}") for _ in source.sizes]
        for var, size in zip(variables, source.sizes, strict=True):
            self.builder.for_(var.name, ZERO, size, ONE, loc=place_of(op))
        value = Load(source.buffer, self.address(source, variables))
        self.builder.store(target.buffer, self.address(target, variables), value, loc=place_of(op))
        for _ in variables:
            self.builder.close()

    def lower_memref_atomic_rmw(self, op: Operation) -> None:
        value, view, *indices = self.of(op.operands)
        kind = int(number(op, "kind") or 0)
        if kind not in ATOMIC_KINDS or view.element is not S.I32:
            raise Refused(op, f"kind {kind} of {view.element.text}", "use addi, andi, ori, maxs or mins of i32")
        self.set(op, [Atomic(ATOMICS[ATOMIC_KINDS[kind]], view.buffer, self.address(view, indices), None, value)])


def reduction(op: Operation, type_: S) -> str:
    """Returns the operator of ``arith`` that a reduction of ``gpu`` applies to values of a type."""
    name = REDUCTIONS.get(word(op, "op"), ("", ""))[type_.is_float]
    if not name:
        raise Refused(op, f"a reduction {word(op, 'op')} of {type_.text}", f"use one of {', '.join(REDUCTIONS)}")
    return name


def kept_axes(op: Operation) -> list[int]:
    """Returns the axes of ``memref.subview`` that its type keeps: axes of size 1 may be left out."""
    kept, result = list[int](), Shape(op, op.results[0].type).sizes
    for axis, size in enumerate(integers(op, "static_sizes")):
        wanted = result[len(kept)] if len(kept) < len(result) else -1
        if wanted == (None if size == DYNAMIC_INDEX else size):
            kept.append(axis)
    if len(kept) != len(result):
        raise Malformed(op, "sizes that are not those of its type")
    return kept
