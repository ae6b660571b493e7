"""Reads MLIR in its generic form with xDSL, rewrites what MLIR 16 spelled in another way, and verifies all of it."""

from __future__ import annotations  # noqa: I001

from typing import Final, NoReturn

from operations import Malformed, attribute, integers, name_of, number
from xdsl.context import Context
from xdsl.dialects import get_all_dialects

# fmt: off
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX, DenseArrayBase, FileLineColLoc, IntAttr, MemRefType, StringAttr, TensorType, UnrankedMemRefType,
    UnregisteredOp, VectorType, i32, i64,
)
# fmt: on
from xdsl.dialects.scf import ReduceOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.irdl import AttrSizedOperandSegments, IRDLOperation
from xdsl.irdl.dominance import DominanceInfo
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

DIALECTS: Final = ("builtin", "func", "gpu", "arith", "math", "scf", "memref", "cf")
_INDEX: Final = (
    "add", "sub", "mul", "divs", "divu", "ceildivs", "ceildivu", "floordivs", "rems", "remu", "maxs", "maxu", "mins",
    "minu", "shl", "shrs", "shru", "and", "or", "xor",
)  # fmt: skip
SIGNATURES: Final = {
    **{f"index.{each}": "index index -> index" for each in _INDEX},
    "index.cmp": "index index -> i1", "index.casts": "s -> t", "index.castu": "s -> t", "index.constant": "-> index",
    "index.bool.constant": "-> i1", "arith.maxf": "t t -> t", "arith.minf": "t t -> t", "arith.index_castui": "s -> t",
    "arith.remf": "t t -> t", "gpu.subgroup_reduce": "t -> t", "gpu.shuffle": "t i32 i32 -> t i1",
}  # fmt: skip
"""The types of operations that xDSL does not define.  A letter is any type, the same wherever it stands."""
SEGMENTS: Final = {"gpu.memcpy": 2, "gpu.dealloc": 1}
"""Operations whose segments MLIR does not write and xDSL wants: tokens, and then so many operands of one each."""
CLUSTERS: Final = {"gpu.launch": (8, []), "gpu.launch_func": (9, [0])}
"""The segments of launches in MLIR 16, without the sizes of clusters, and what is behind all others today."""
VIEWS: Final = (
    "memref.cast", "memref.memory_space_cast", "memref.assume_alignment", "memref.copy", "memref.subview",
    "memref.reinterpret_cast", "memref.expand_shape", "memref.collapse_shape",
)  # fmt: skip
UNJUDGED: Final = (VectorType, TensorType, UnrankedMemRefType)
"""xDSL's definitions of ``arith`` and ``memref`` allow fewer of these than MLIR's do; lowering refuses them all."""


class Unreadable(Exception):
    """Text that is no MLIR module in the generic form; ``reason`` leaves out where it stands."""

    def __init__(self, file: str, why: str) -> None:
        self.reason = f"xDSL: {why}"
        super().__init__(f"{file}: {why}. Fix: write the generic form, as mlir-opt --mlir-print-op-generic does.")


class _LineKeeper(Parser):
    """A parser that notes on which line of ``file`` each operation begins."""

    def __init__(self, context: Context, text: str, file: str) -> None:
        super().__init__(context, text, file)
        self.text, self.file = text, StringAttr(file)

    def parse_operation(self) -> Operation:
        begin = self.pos
        op = super().parse_operation()
        op.location = FileLineColLoc(self.file, IntAttr(self.text.count("\n", 0, begin) + 1), IntAttr(1))
        return op


def read(text: str, file: str) -> Operation:
    """Returns the module that a text describes.

    Raises ``Unreadable`` for what xDSL cannot parse, and ``Malformed`` for what does not verify.
    """
    context = Context(allow_unregistered=True)
    for name in DIALECTS:
        context.register_dialect(name, get_all_dialects()[name])
    try:
        module = _LineKeeper(context, text, file).parse_module()
    except Exception as error:  # attributes and types that are not well-formed raise errors of many classes there
        lines = [line.strip(" ^") for line in str(error).splitlines()]
        where = next((line.split("@")[-1] for line in lines if file in line), file)
        said = [line for line in lines if line] or [type(error).__name__]
        raise Unreadable(where, said[-1].partition(" self: ")[0]) from error
    verify(modernized(module))
    return module


def modernized(module: Operation) -> Operation:
    """Rewrites in place what MLIR 16 writes and today's MLIR spells in another way, and returns the module."""
    for op in list(module.walk()):
        if isinstance(op, IRDLOperation) and "operand_segment_sizes" in op.attributes:
            sizes = op.attributes.pop("operand_segment_sizes")
            count, behind = CLUSTERS.get(op.name, (0, []))
            if isinstance(sizes, DenseArrayBase) and len(sizes) == count:
                values = list(sizes.get_values())
                sizes = DenseArrayBase.from_list(i32, [*values[:7], 0, 0, 0, *values[7:], *behind])
            options = op.get_irdl_definition().options
            as_property = any(isinstance(each, AttrSizedOperandSegments) and each.as_property for each in options)
            (op.properties if as_property else op.attributes)["operandSegmentSizes"] = sizes
        match name_of(op):
            case name if name in SEGMENTS and "operandSegmentSizes" not in op.attributes:
                counts = [len(op.operands) - SEGMENTS[name], *[1] * SEGMENTS[name]]
                op.attributes["operandSegmentSizes"] = DenseArrayBase.from_list(i32, counts)
            case "memref.global":
                op.properties.setdefault("sym_visibility", StringAttr("public"))
            case "memref.expand_shape" if op.results and isinstance(op.results[0].type, MemRefType):
                sizes = DenseArrayBase.from_list(i64, list(op.results[0].type.get_shape()))
                op.properties.setdefault("static_output_shape", sizes)
            case "scf.parallel" if op.regions and op.regions[0].blocks:
                _one_reduce(op.regions[0].blocks[0])
    return module


def _one_reduce(block: Block) -> None:
    """Puts the reductions of ``scf.parallel``, which stood anywhere in its body, into one operation at its end."""
    if block.last_op is None or name_of(block.last_op) != "scf.yield" or block.last_op.operands:
        return
    old = [op for op in block.ops if name_of(op) == "scf.reduce"]
    made = ReduceOp([value for op in old for value in op.operands], [r for op in old for r in _detached(op)])
    made.location = block.last_op.location
    for op in [*old, block.last_op]:
        op.detach()
        op.erase()
    block.add_op(made)


def _detached(op: Operation) -> list[Region]:
    return [op.detach_region(region) for region in list(op.regions)]


def verify(module: Operation) -> None:
    """Raises ``Malformed`` for the first operation that does not verify, or uses a value before it is there.

    xDSL verifies what it defines.  Of the operations that it lacks, those in ``SIGNATURES`` are verified by it, and
    lowering refuses the others, with all that is in them.
    """
    for op in _known(module):
        if (signature := SIGNATURES.get(name_of(op))) is not None and isinstance(op, UnregisteredOp):
            _check_signature(op, signature)
        elif name_of(op) == "gpu.func":
            _check_gpu_func(op)
        elif not _is_narrower(op):
            _check_by_xdsl(op)
        if name_of(op) in VIEWS:
            _check_view(op)
    for region in module.regions:
        _check_dominance(region, set())


def _known(op: Operation) -> list[Operation]:
    """Returns an operation and those in it, without those in operations that xDSL and this example do not know."""
    within = [] if isinstance(op, UnregisteredOp) else [each for r in op.regions for b in r.blocks for each in b.ops]
    return [op, *(found for each in within for found in _known(each))]


def _is_narrower(op: Operation) -> bool:
    """Whether xDSL's verifier refuses what MLIR allows."""
    if name_of(op).startswith(("arith.", "memref.")) and any(
        isinstance(value.type, UNJUDGED) for value in (*op.operands, *op.results)
    ):
        return True
    match name_of(op):
        case "memref.assume_alignment" | "gpu.terminator":  # MLIR 16 has them without a result, and in gpu.func
            return True
        case "memref.dma_start" | "memref.dma_wait":  # lowering refuses them
            return True
        case "memref.global":  # a declaration has no value
            return attribute(op, "initial_value") is None
        case "memref.reinterpret_cast":  # a type may leave open what is known
            return any(
                isinstance(each.type, MemRefType) and DYNAMIC_INDEX in each.type.get_shape() for each in op.results
            )
        case "gpu.memcpy":  # memory may be of two spaces
            types = [value.type for value in op.operands[-2:]]
            return len({(str(each.element_type), each.shape) for each in types if isinstance(each, MemRefType)}) == 1
    return False


def _check_by_xdsl(op: Operation) -> None:
    try:
        op.verify(verify_nested_ops=False)
        for region in op.regions:
            for block in region.blocks:
                if not block.ops and len(region.blocks) > 1:
                    raise VerifyException("a block without an end")
    except Exception as error:  # verifiers of xDSL expect what others verify, and raise errors of many classes
        lines = [line.strip(" ^") for line in str(error).splitlines()]
        said = [line for line in lines if line] or [type(error).__name__]
        raise Malformed(op, said[-1].partition(" self: ")[0].rstrip(".")) from error


def _check_signature(op: Operation, signature: str) -> None:
    known: dict[str, str] = {}
    takes, _, gives = signature.partition("->")
    for values, wanted in ((op.operands, takes.split()), (op.results, gives.split())):
        types = [str(value.type) for value in values]
        if len(types) != len(wanted) or any(
            each != (known.setdefault(type_, each) if len(type_) == 1 else type_)
            for each, type_ in zip(types, wanted, strict=True)
        ):
            raise Malformed(op, f"its types are not {signature}")


def _check_gpu_func(op: Operation) -> None:
    """Raises ``Malformed`` for a kernel whose arguments are not its inputs; xDSL takes attributions for arguments."""
    type_ = attribute(op, "function_type")
    inputs = getattr(getattr(type_, "inputs", None), "data", None)
    if inputs is None or not isinstance(attribute(op, "sym_name"), StringAttr) or len(op.regions) != 1:
        _malformed(op, "a function has a type, a name and one region")
    if op.regions[0].blocks:
        found = [each.type for each in op.regions[0].blocks[0].args]
        shared = number(op, "workgroup_attributions") or 0
        if found[: len(inputs)] != list(inputs) or not 0 <= shared <= len(found) - len(inputs):
            _malformed(op, "its first arguments are not those of its type")


def _check_view(op: Operation) -> None:
    """Raises ``Malformed`` where two memrefs are not of one element type, or their shapes do not fit."""
    values = (*op.operands[: 2 if name_of(op) == "memref.copy" else 1], *op.results)
    types = [value.type for value in values if isinstance(value.type, MemRefType)]
    if len(types) != len(values):
        return  # lowering refuses memory without a rank
    if len({str(each.element_type) for each in types}) != 1:
        _malformed(op, "memory of two element types")
    ranks = [len(each.get_shape()) for each in types]
    if name_of(op) in ("memref.subview", "memref.reinterpret_cast"):
        parts = [integers(op, f"static_{part}") for part in ("offsets", "sizes", "strides")]
        lengths = [ranks[0]] * 3 if name_of(op) == "memref.subview" else [1, ranks[1], ranks[1]]
        dynamic = [part.count(DYNAMIC_INDEX) for part in parts]
        if [len(part) for part in parts] != lengths or dynamic != integers(op, "operandSegmentSizes")[1:]:
            _malformed(op, "offsets, sizes and strides that do not fit its types")
    elif not name_of(op).endswith("_shape"):
        sizes = zip(*(each.get_shape() for each in types), strict=False)
        if len(set(ranks)) > 1 or any(len({*axis} - {DYNAMIC_INDEX}) > 1 for axis in sizes):
            _malformed(op, "memory of two shapes")


def _malformed(op: Operation, why: str) -> NoReturn:
    raise Malformed(op, why)


def _check_dominance(region: Region, outer: set[SSAValue]) -> None:
    """Raises ``Malformed`` for a use that the definition does not dominate; xDSL does not verify that."""
    dominance = DominanceInfo(region) if len(region.blocks) > 1 else None
    made = {block: {*block.args, *(each for op in block.ops for each in op.results)} for block in region.blocks}
    for number_, block in enumerate(region.blocks):
        if dominance is not None and number_ and not dominance.dominates(region.blocks[0], block):
            continue  # no jump leads there
        there = outer | set(block.args)
        for other in region.blocks:
            if dominance is not None and dominance.strictly_dominates(other, block):
                there |= made[other]
        for op in block.ops:
            for operand in op.operands:
                if operand not in there:
                    raise Malformed(op, "an operand whose definition does not dominate it")
            for inner in () if isinstance(op, UnregisteredOp) else op.regions:
                _check_dominance(inner, set() if name_of(op).endswith(".func") else there)
            there |= set(op.results)
