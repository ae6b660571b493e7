"""Runs MLIR with NumPy: host code, and kernels lane by lane.  Its answers are what vyre's are compared with."""

from __future__ import annotations  # noqa: I001

import math
from collections.abc import Callable, Generator
from typing import Any, Final

import numpy as np
from flow import edges
from lowering import IDS, IGNORED, SUBGROUP, kept_axes, reduction

# fmt: off
from operations import (
    ATOMIC_KINDS, CONSTANTS, TERMINATORS, Refused, Shape, attribute, ending, groups, integers, name_of, number,
    place_of, stored, symbol, word,
)

# fmt: on
from operators import CONVERSIONS, operator_of, predicate
from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Block, Operation, SSAValue

Size = tuple[int, int, int]
Lane = Generator[tuple[Operation, Any], Any, list[Any]]
"""A lane that runs: it gives each operation at which the lanes of a workgroup meet, and takes its result."""
FUNCTIONS: Final[dict[str, Callable[[Any], Any]]] = {
    "sqrt": np.sqrt, "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "sin": np.sin, "cos": np.cos,
    "tan": np.tan, "tanh": np.tanh, "atan": np.arctan, "asin": np.arcsin, "acos": np.arccos, "sinh": np.sinh,
    "cosh": np.cosh, "rsqrt": lambda x: 1 / np.sqrt(x),
}  # fmt: skip
"""NumPy's functions, which are asked in float64."""
EXACT: Final[dict[str, Callable[[Any], Any]]] = {
    "negf": np.negative, "absf": np.abs, "ceil": np.ceil, "floor": np.floor, "trunc": np.trunc, "roundeven": np.rint,
    "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
}  # fmt: skip
_PLACES: Final = ("gpu.block_id", "gpu.thread_id", "gpu.global_id")
STEPS: Final = 20_000
"""The operations that a function may run."""


ELEMENTS: Final = 1 << 22
"""The elements that a piece of memory may have here."""


class Undefined(Exception):
    """Something that MLIR does not define happened, such as a division by zero; there is no answer to compare."""

    def __init__(self, op: Operation, why: str) -> None:
        self.reason = why
        super().__init__(f"{place_of(op)}: `{name_of(op)}`: {why}")


class Machine:
    """A module that runs.  ``launch(func, grid, block, arguments)`` is called for each launch of a kernel."""

    def __init__(self, module: Operation, launch: Callable[..., None] | None = None) -> None:
        self.functions = functions(module)
        self.globals: dict[str, Any] = {}
        self.printed: list[str] = []
        self.on_launch = launch or self.launch
        self.approximate, self.steps = False, 0
        for op in module.walk():
            if name_of(op) == "memref.global":
                self.globals[symbol(op)] = _global(op)

    def call(self, func: Operation, arguments: list[Any]) -> list[Any]:
        """Runs a function with NumPy scalars and arrays, of which arrays are changed, and returns its results."""
        ids = dict.fromkeys(("gpu.grid_dim", "gpu.block_dim"), (1, 1, 1)) | dict.fromkeys(_PLACES, (0, 0, 0))
        with np.errstate(all="ignore"):
            return self.together(func, [_Returning(self.run(func, arguments, ids | {"lane": 0}))])[0]

    def launch(self, func: Operation, grid: Size, block: Size, arguments: list[Any]) -> None:
        """Runs a kernel: workgroup after workgroup, and in one of them all lanes to where they meet."""
        if min(*grid, *block) < 1 or math.prod(grid) > STEPS:
            raise Undefined(func, "a launch without a lane, or of too many")
        with np.errstate(all="ignore"):
            for group in np.ndindex(*reversed(grid)):
                ids = {"gpu.grid_dim": grid, "gpu.block_dim": block, "gpu.block_id": group[::-1]}
                self.workgroup(func, ids, block, arguments)

    def workgroup(self, func: Operation, ids: dict[str, Any], block: Size, arguments: list[Any]) -> None:
        self.spend(func, math.prod(block))
        own = func.regions[0].blocks[0].args[len(arguments) :]
        count = int(number(func, "workgroup_attributions") or 0)
        shared = [_zeros(func, each.type) for each in own[:count]]
        lanes = list[_Returning]()
        for local in np.ndindex(*reversed(block)):
            known = ids | {"gpu.thread_id": local[::-1], "lane": len(lanes)}
            known["gpu.global_id"] = tuple(
                g * b + t for g, b, t in zip(ids["gpu.block_id"], block, local[::-1], strict=True)
            )
            private = [_zeros(func, each.type) for each in own[count:]]
            lanes.append(_Returning(self.run(func, [*arguments, *shared, *private], known)))
        self.together(func, lanes)

    def together(self, func: Operation, lanes: list[_Returning]) -> list[list[Any]]:
        """Runs the lanes of a workgroup to their ends, and returns what each of them returns."""
        answers: list[Any] = [None] * len(lanes)
        while True:
            meetings = [lane.resume(answer) for lane, answer in zip(lanes, answers, strict=True)]
            met = [each for each in meetings if each is not None]
            if not met:
                return [lane.results for lane in lanes]
            if len(met) != len(lanes) or len({op for op, _ in met}) != 1:
                raise Undefined(func, "not all lanes come to a barrier")
            answers = self.met(met[0][0], [value for _, value in met])

    def met(self, op: Operation, values: list[Any]) -> list[Any]:
        """Returns what each lane gets where the lanes of a workgroup meet."""
        match name_of(op):
            case "gpu.all_reduce" | "gpu.subgroup_reduce":
                every = len(values) if name_of(op) == "gpu.all_reduce" else SUBGROUP
                return [self.reduced(op, values[n // every * every :][:every]) for n in range(len(values))]
            case "gpu.shuffle":
                return [_shuffled(word(op, "mode"), values, lane) for lane in range(len(values))]
        return [None] * len(values)

    def reduced(self, op: Operation, values: list[Any]) -> Any:
        total = values[0]
        for value in values[1:]:
            if op.regions and op.regions[0].blocks:
                block = op.regions[0].blocks[0]
                env: dict[SSAValue, Any] = dict(zip(block.args, (total, value), strict=True))
                lane = _Returning(self.block(block, env, {}))
                lane.resume(None)
                total = lane.results[0]
            else:
                type_ = stored(op, op.operands[0].type)
                total = _as(self.operator(op, reduction(op, type_), [total, value]), value.dtype)
        return total

    def run(self, func: Operation, arguments: list[Any], ids: dict[str, Any]) -> Lane:
        if not func.regions[0].blocks:
            return self.foreign(func, arguments)
        block = func.regions[0].blocks[0]
        return (yield from self.block(block, dict(zip(block.args, arguments, strict=True)), ids))

    def foreign(self, func: Operation, arguments: list[Any]) -> list[Any]:
        """Does what MLIR's runner libraries do: they print, fill and pass on memory."""
        name = symbol(func)
        if name.startswith("print"):
            self.printed.append(
                np.array2string(arguments[0], formatter={"all": "{:g}".format}, threshold=10**6, separator=",")
            )
        elif name.startswith("fill"):
            arguments[0][...] = arguments[1]
        elif name.startswith("mgpuMemGetDeviceMemRef"):
            return [arguments[0]]
        else:
            raise Refused(func, "a function without a body", "define it")
        return []

    def block(self, block: Block, env: dict[SSAValue, Any], ids: dict[str, Any]) -> Lane:
        """Runs a block and those to which it jumps, and returns the operands of the operation that ends them."""
        values: list[Any] = []
        next_: Block | None = block
        while next_ is not None:
            next_, values = yield from self.straight(next_, env, ids)
        return values

    def straight(self, block: Block, env: dict[SSAValue, Any], ids: dict[str, Any]) -> Any:
        """Runs the operations of a block, and returns the block to which it jumps, if any, and what it gives."""
        for op in block.ops:
            self.spend(op, 1)
            values = [env[operand] for operand in op.operands]
            if op.next_op is None and name_of(op) in TERMINATORS:
                return None, values
            if op.next_op is None and op.successors:
                cases, jumps = edges(op)
                jump = jumps[cases.index(int(values[0])) if cases and int(values[0]) in cases else -1]
                env |= zip(jump.target.args, [env[each] for each in jump.passed or ()], strict=True)
                return jump.target, []
            results = yield from self.operation(op, values, env, ids)
            for result, value in zip(op.results, results, strict=True):
                env[result] = _as(value, _dtype(op, result.type)) if isinstance(value, np.generic) else value
        return None, []

    def spend(self, op: Operation, steps: int) -> None:
        self.steps += steps
        if self.steps > STEPS:
            raise Undefined(op, f"more than {STEPS} steps")

    def operation(self, op: Operation, values: list[Any], env: dict[SSAValue, Any], ids: dict[str, Any]) -> Any:
        name = name_of(op)
        body = [region.blocks[0] for region in op.regions if region.blocks]
        match name:
            case _ if name in CONSTANTS:
                value = number(op, "value")
                if value is None:
                    raise Refused(op, "a constant that is no number", "use scalars")
                return [_wrapped(value, _dtype(op, op.results[0].type))]
            case _ if name in IDS or name == "gpu.block_dim":
                return [np.int64(ids[name]["xyz".index(word(op, "dimension"))])]
            case "gpu.lane_id" | "gpu.subgroup_id":
                return [np.int64(ids["lane"] % SUBGROUP if name == "gpu.lane_id" else ids["lane"] // SUBGROUP)]
            case "gpu.subgroup_size" | "gpu.num_subgroups":
                return [
                    np.int64(
                        SUBGROUP if name == "gpu.subgroup_size" else -(-math.prod(ids["gpu.block_dim"]) // SUBGROUP)
                    )
                ]
            case "gpu.barrier" | "gpu.all_reduce" | "gpu.subgroup_reduce" | "gpu.shuffle":
                met = yield op, values if name == "gpu.shuffle" else values[0] if values else None
                return list(met) if name == "gpu.shuffle" else [met] if values else []
            case "scf.if":
                chosen = body[:1] if values[0] else body[1:]
                return (yield from self.block(chosen[0], env, ids)) if chosen else []
            case "scf.index_switch":
                cases = integers(op, "cases")
                case = cases.index(int(values[0])) + 1 if int(values[0]) in cases else 0
                return (yield from self.block(body[case], env, ids))
            case "scf.execute_region":
                return (yield from self.block(body[0], env, ids))
            case "scf.for":
                low, high, step, *carried = values
                if step <= 0:
                    raise Undefined(op, "a step that is not positive")
                for each in range(int(low), int(high), int(step)):
                    env |= zip(body[0].args, (low.dtype.type(each), *carried), strict=True)
                    carried = yield from self.block(body[0], env, ids)
                return carried
            case "scf.while":
                while True:
                    env |= zip(body[0].args, values, strict=True)
                    holds, *passed = yield from self.block(body[0], env, ids)
                    if not holds:
                        return passed
                    env |= zip(body[1].args, passed, strict=True)
                    values = yield from self.block(body[1], env, ids)
            case "scf.parallel":
                axes = len(body[0].args)
                if any(each <= 0 for each in values[2 * axes : 3 * axes]):
                    raise Undefined(op, "a step that is not positive")
                spans = [range(*map(int, values[axis : 3 * axes : axes])) for axis in range(axes)]
                if math.prod(each.stop - each.start for each in spans if each.stop > each.start) > STEPS:
                    raise Undefined(op, f"more than {STEPS} steps")
                totals, reductions = values[3 * axes :], ending(body[0]).regions
                for place in np.ndindex(*map(len, spans)):
                    env |= zip(body[0].args, (np.int64(s[n]) for s, n in zip(spans, place, strict=True)), strict=True)
                    parts = yield from self.block(body[0], env, ids)
                    for n, region in enumerate(reductions):
                        env |= zip(region.blocks[0].args, (totals[n], parts[n]), strict=True)
                        totals[n] = (yield from self.block(region.blocks[0], env, ids))[0]
                return totals
            case "func.call":
                return (yield from self.run(self.functions[word(op, "callee")], values, ids))
            case "gpu.launch_func":
                segments = integers(op, "operandSegmentSizes")
                if any(segments[7:10]):
                    raise Refused(op, "a launch of clusters", "launch workgroups alone")
                sizes, passed = values[segments[0] :][:6], values[sum(segments[:11]) :][: segments[11]]
                func = self.functions[attribute(op, "kernel").nested_references.data[-1].data]
                gx, gy, gz, bx, by, bz = map(int, sizes)
                self.on_launch(func, (gx, gy, gz), (bx, by, bz), passed)
                return [None] * len(op.results)
            case "gpu.wait" | "gpu.host_register" | "gpu.host_unregister" | "memref.dealloc" | "gpu.dealloc":
                return [None] * len(op.results)
            case _ if name in IGNORED and not op.results:
                return []
            case "memref.store":
                values[1][_inside(op, values[1], values[2:])] = values[0]
                return []
            case _ if name.startswith(("memref.", "gpu.")):
                return self.memory(op, name, values)
        if not values or not name.startswith(("arith.", "math.", "index.")):
            raise Refused(op, "no such operation here", "lower it first")
        return self.results(op, values)

    def memory(self, op: Operation, name: str, values: list[Any]) -> list[Any]:
        match name:
            case "memref.load":
                return [values[0][_inside(op, values[0], values[1:])]]
            case "memref.alloc" | "memref.alloca" | "gpu.alloc":
                sizes = integers(op, "operandSegmentSizes")
                dynamic = values[sizes[0] :] if name == "gpu.alloc" else values
                made = _zeros(op, op.results[0].type, dynamic)
                return [made, None][: len(op.results)]
            case "memref.dim":
                if not 0 <= values[1] < values[0].ndim:
                    raise Undefined(op, "an axis that memory does not have")
                return [np.int64(values[0].shape[int(values[1])])]
            case "memref.cast" | "memref.memory_space_cast" | "memref.assume_alignment":
                return values[: len(op.results)]
            case "memref.get_global":
                return [self.globals[word(op, "name")]]
            case "memref.copy" | "gpu.memcpy":
                target, source = values[-2:] if name == "gpu.memcpy" else reversed(values)
                target[...] = source
                return [None] * len(op.results)
            case "gpu.memset":
                values[-2][...] = values[-1]
                return [None] * len(op.results)
            case "memref.expand_shape" | "memref.collapse_shape":
                return [_reshaped(op, values[0], values[1:])]
            case "memref.subview" | "memref.reinterpret_cast":
                return [_sliced(op, name == "memref.subview", values)]
            case "memref.atomic_rmw":
                place = _inside(op, values[1], values[2:])
                old = values[1][place]
                values[1][place] = self.operator(op, ATOMIC_KINDS[int(number(op, "kind") or 0)], [old, values[0]])
                return [old]
        raise Refused(op, "no such operation here", "lower it first")

    def results(self, op: Operation, values: list[Any]) -> list[Any]:
        """Returns the results of an operator of ``arith``, ``math`` or ``index``."""
        name = operator_of(op)
        target = _dtype(op, op.results[0].type)
        match name:
            case "select":
                return [values[1] if values[0] else values[2]]
            case "bitcast":
                return [values[0].view(target)]
        values = [floats(value) for value in values]
        match name:
            case "cmpi":
                which = predicate(op)
                x, y = (_number(value, which[0] == "u") for value in values)
                return [np.bool_(_RELATION[which[-2:]](x, y))]
            case "cmpf":
                which, (x, y) = predicate(op), values
                nan = bool(np.isnan(x) or np.isnan(y))
                if which in ("false", "true"):
                    return [np.bool_(which == "true")]
                if which in ("ord", "uno"):
                    return [np.bool_(nan == (which == "uno"))]
                return [np.bool_(which[0] == "u" if nan else _RELATION[which[1:]](x, y))]
            case "addui_extended":
                total = _number(values[0], True) + _number(values[1], True)
                return [_wrapped(total, target), np.bool_(total >> _width(values[0]))]
            case "mului_extended" | "mulsi_extended":
                x, y = (_number(value, name[3] == "u") for value in values)
                return [_wrapped(x * y, target), _wrapped(x * y >> _width(values[0]), target)]
            case "fptosi" | "fptoui":
                bits, low = _width(target.type(0)), name == "fptoui"
                if not np.isfinite(values[0]):
                    raise Undefined(op, "no integer of that size")
                whole = int(values[0])
                if not (0 if low else -(1 << bits - 1)) <= whole < (1 << bits - (not low)):
                    raise Undefined(op, "no integer of that size")
                return [_wrapped(whole, target)]
            case "sitofp" | "uitofp":
                return [_as(np.array(_number(values[0], name == "uitofp"))[()], target)]
            case "extf" | "truncf":
                return [_as(values[0], target)]
            case _ if name in CONVERSIONS:
                return [_wrapped(_number(values[0], name in ("extui", "index_castui")), target)]
        return [self.operator(op, name, values)]

    def operator(self, op: Operation, name: str, values: list[Any]) -> Any:
        """Returns an operator of values of one type; a result of bf16 is still to be rounded."""
        values = [floats(value) for value in values]
        dtype = values[0].dtype
        if name in EXACT:
            return EXACT[name](values[0])
        if name in FUNCTIONS:
            self.approximate |= name != "sqrt"
            return FUNCTIONS[name](values[0].astype(np.float64)).astype(dtype)
        if name in _FLOAT:
            return _FLOAT[name](*values)
        if name == "fma":
            return _fma(*values)
        if name not in _INTEGER:
            raise Refused(op, f"no such operator of {dtype}", "write it with others")
        as_unsigned = name.endswith("ui") or name in ("ctlz", "cttz", "ctpop")
        numbers = [_number(value, as_unsigned) for value in values]
        width = _width(values[0])
        if name in ("shli", "shrsi", "shrui"):
            numbers = [_number(values[0], name == "shrui"), _number(values[1], True)]
            if numbers[1] >= width:
                raise Undefined(op, "a shift by the width or more")
        if "div" in name or "rem" in name:
            if numbers[1] == 0:
                raise Undefined(op, "a division by zero")
            if not as_unsigned and numbers == [-(1 << width - 1), -1]:
                raise Undefined(op, "a quotient that overflows")
        return _wrapped(_INTEGER[name](*numbers, *([width] if name in ("ctlz", "cttz") else [])), dtype)


class _Returning:
    """A lane, and what it returned at its end."""

    def __init__(self, lane: Lane) -> None:
        self.lane, self.results = lane, list[Any]()

    def resume(self, answer: Any) -> tuple[Operation, Any] | None:
        try:
            return self.lane.send(answer)
        except StopIteration as end:
            self.results = end.value or self.results
            return None


def functions(module: Operation) -> dict[str, Operation]:
    """Returns the functions of a module and of the modules in it, by name."""
    return {symbol(op): op for op in module.walk() if name_of(op) in ("func.func", "gpu.func")}


def _truncated(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def _larger(x: Any, y: Any, sign: int) -> Any:
    if np.isnan(x) or np.isnan(y):
        return y if np.isnan(x) else x
    if x == y:
        return x if bool(np.signbit(x)) == (sign < 0) else y
    return x if (x > y) == (sign > 0) else y


def _strict(x: Any, y: Any, sign: int) -> Any:
    return x + y if np.isnan(x) or np.isnan(y) else _larger(x, y, sign)


def _fma(x: Any, y: Any, z: Any) -> Any:
    if x.dtype == np.float32 and np.isfinite([x, y, z]).all():
        from fractions import Fraction

        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        wide = np.float64(float(exact))
        if Fraction(float(wide)) == exact:
            return np.float32(wide)
    return x.dtype.type(np.longdouble(x) * np.longdouble(y) + np.longdouble(z))


_RELATION: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "eq": lambda x, y: x == y, "ne": lambda x, y: x != y, "lt": lambda x, y: x < y, "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y, "ge": lambda x, y: x >= y,
}  # fmt: skip
_FLOAT: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "addf": lambda x, y: x + y, "subf": lambda x, y: x - y, "mulf": lambda x, y: x * y, "divf": lambda x, y: x / y,
    "maxf": lambda x, y: _strict(x, y, 1), "minf": lambda x, y: _strict(x, y, -1),
    "maximumf": lambda x, y: _strict(x, y, 1), "minimumf": lambda x, y: _strict(x, y, -1),
    "maxnumf": lambda x, y: _larger(x, y, 1), "minnumf": lambda x, y: _larger(x, y, -1), "copysign": np.copysign,
}  # fmt: skip
_INTEGER: Final[dict[str, Callable[..., int]]] = {
    "addi": lambda x, y: x + y, "subi": lambda x, y: x - y, "muli": lambda x, y: x * y, "divsi": _truncated,
    "divui": lambda x, y: x // y, "remsi": lambda x, y: x - y * _truncated(x, y), "remui": lambda x, y: x % y,
    "ceildivsi": lambda x, y: -(-x // y), "ceildivui": lambda x, y: -(-x // y), "floordivsi": lambda x, y: x // y,
    "andi": lambda x, y: x & y, "ori": lambda x, y: x | y, "xori": lambda x, y: x ^ y, "shli": lambda x, y: x << y,
    "shrsi": lambda x, y: x >> y, "shrui": lambda x, y: x >> y, "maxsi": max, "minsi": min, "maxui": max, "minui": min,
    "absi": abs, "ctpop": int.bit_count, "ctlz": lambda x, width: width - x.bit_length(),
    "cttz": lambda x, width: (x & -x).bit_length() - 1 if x else width,
}  # fmt: skip


def _width(value: Any) -> int:
    return 1 if value.dtype == bool else value.dtype.itemsize * 8


def _number(value: Any, as_unsigned: bool) -> int:
    bits = int(value)
    if value.dtype == bool:
        return bits if as_unsigned else -bits
    return bits % (1 << _width(value)) if as_unsigned else bits


def _wrapped(value: float, dtype: Any) -> Any:
    """Returns a number as a scalar of a type; integers are cut off."""
    if dtype.kind == "f":
        return dtype.type(value)
    if dtype == np.uint16:
        return bits_of_bf16(value)
    if dtype.kind == "b":
        return np.bool_(int(value) & 1)
    bits = dtype.itemsize * 8
    low = int(value) % (1 << bits)
    return dtype.type(low - (1 << bits) if low >> (bits - 1) else low)


def floats(value: Any) -> Any:
    """Returns bf16 as f32.  Values of bf16 are held as their bits in uint16, which is the type of nothing else."""
    return (value.astype(np.uint32) << 16).view(np.float32) if value.dtype == np.uint16 else value


def bits_of_bf16(value: Any) -> Any:
    """Returns floats as bf16, to the nearest and to even in the middle."""
    bits = np.asarray(value, np.float32).view(np.uint32).astype(np.uint64)
    nearest = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(value), 0x7FC0, nearest).astype(np.uint16)[()]


def _as(value: Any, dtype: np.dtype[Any]) -> Any:
    """Returns a scalar as one of a type that holds it."""
    return bits_of_bf16(value) if dtype == np.uint16 and value.dtype != np.uint16 else value.astype(dtype)


def _dtype(op: Operation, type_: Any) -> np.dtype[Any]:
    return np.dtype(stored(op, type_).numpy_name)


def _zeros(op: Operation, type_: Any, dynamic: list[Any] = []) -> Any:  # noqa: B006
    shape, rest = Shape(op, type_), iter(dynamic)
    sizes = [int(next(rest)) if size is None else size for size in shape.sizes]
    if min(sizes, default=1) < 0 or math.prod(sizes) > ELEMENTS:
        raise Undefined(op, f"memory of a size below zero, or of more than {ELEMENTS} elements")
    return np.zeros(sizes, shape.element.numpy_name)


def _global(op: Operation) -> Any:
    made = _zeros(op, attribute(op, "type"))
    initial = attribute(op, "initial_value")
    if hasattr(initial, "get_values"):
        made[...] = np.array(initial.get_values()).reshape(-1 if len(initial.get_values()) == 1 else made.shape)
    return made


def _inside(op: Operation, memory: Any, indices: list[Any]) -> tuple[int, ...]:
    place = tuple(map(int, indices))
    if not all(0 <= each < size for each, size in zip(place, memory.shape, strict=True)):
        raise Undefined(op, "an access out of range")
    return place


def _sliced(op: Operation, relative: bool, values: list[Any]) -> Any:
    memory, rest = values[0], iter(values[1:])
    offsets, sizes, strides = (
        [int(next(rest)) if each == DYNAMIC_INDEX else each for each in integers(op, f"static_{part}")]
        for part in ("offsets", "sizes", "strides")
    )
    base = base_of(memory).reshape(-1)
    if relative:
        for offset, size, stride, whole in zip(offsets, sizes, strides, memory.shape, strict=True):
            if size and not (0 <= offset < whole and 0 <= offset + (size - 1) * stride < whole):
                raise Undefined(op, "a slice out of range")
        steps = [each // memory.itemsize for each in memory.strides]
        start = offset_of(memory) + sum(offset * step for offset, step in zip(offsets, steps, strict=True))
        strides = [stride * step for stride, step in zip(strides, steps, strict=True)]
        kept = kept_axes(op)
        sizes, strides = [sizes[axis] for axis in kept], [strides[axis] for axis in kept]
    else:
        start = offsets[0]
    ends = [(size - 1) * stride for size, stride in zip(sizes, strides, strict=True)]
    low, high = (start + sum(pick(each, 0) for each in ends) for pick in (min, max))
    if min(sizes, default=1) < 0 or (0 not in sizes and not 0 <= low <= high < base.size):
        raise Undefined(op, "a slice out of range")
    return strided(base, start, sizes, strides) if 0 not in sizes else np.zeros(sizes, base.dtype)


def _reshaped(op: Operation, memory: Any, passed: list[Any]) -> Any:
    """Returns memory with axes split or joined."""
    shape, rest = [], iter(passed)
    found, known = groups(op), Shape(op, op.results[0].type).sizes
    if name_of(op) == "memref.collapse_shape":
        shape = [math.prod(memory.shape[axis] for axis in group) for group in found]
    else:
        shape = [1] * len(known)
        for size, group in zip(memory.shape, found, strict=True):
            left = size // math.prod(known[axis] or 1 for axis in group)
            for axis in group:
                shape[axis] = int(next(rest, left)) if known[axis] is None else known[axis]
            if math.prod(shape[axis] for axis in group) != size:
                raise Undefined(op, "an axis split into parts that are not all of it")
    made = memory.reshape(shape)
    if base_of(made) is not base_of(memory):
        raise Undefined(op, "axes made one that do not lie one behind the other")
    return made


def strided(base: Any, offset: int, sizes: list[int], strides: list[int]) -> Any:
    """Returns the view of memory that a memref is; offset and strides count elements."""
    size = base.itemsize
    return np.ndarray(sizes, base.dtype, base, offset * size, [each * size for each in strides])


def offset_of(memory: Any) -> int:
    """Returns the place of the first element of a view in the array that owns its memory."""
    first, begin = (int(each.__array_interface__["data"][0]) for each in (memory, base_of(memory)))
    return (first - begin) // int(memory.itemsize)


def base_of(memory: Any) -> Any:
    """Returns the array that owns the memory of a view."""
    while isinstance(memory.base, np.ndarray):
        memory = memory.base
    return memory


def _shuffled(mode: str, values: list[list[Any]], lane: int) -> tuple[Any, Any]:
    value, offset, width = values[lane]
    first, own = lane // SUBGROUP * SUBGROUP, lane % SUBGROUP
    target = {"xor": own ^ int(offset), "up": own - int(offset), "down": own + int(offset), "idx": int(offset)}[mode]
    valid = 0 <= target < int(width)
    there = values[first + target][0] if valid and first + target < len(values) else value.dtype.type(0)
    return there, np.bool_(valid)
