"""Lowers a region of several blocks, with the jumps of ``cf``, to the branches and loops that vyre's programs have.

A branch ends where the nearest block stands that all its paths come to, its join.  A loop has one header, which
dominates the blocks that jump back to it; where it is left to several blocks, a local keeps to which.  A block that
branches share without being their join is lowered for each of them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from operations import Malformed, Refused, constant, ending, integers, name_of, stored
from operators import literal
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.irdl.dominance import DominanceInfo

from vyre.ir import Binary, BinaryOp, Expr, Literal, ScalarType, Var

if TYPE_CHECKING:
    from lowering import Lowering

LIMIT: Final = 256
"""The blocks that the blocks of one region may become."""


class Edge(NamedTuple):
    """A jump to a block; ``passed`` is None where the arguments of the block have their values already."""

    target: Block
    passed: list[SSAValue] | None


class Flow:
    """The blocks of a region that are reached, in the order of a depth-first search, with joins and loops."""

    def __init__(self, region: Region) -> None:
        self.first = region.blocks[0]
        self.dominance = DominanceInfo(region)
        self.blocks: list[Block] = []
        back = self._search(self.first, [])
        before: dict[Block, list[Block]] = {block: [] for block in self.blocks}
        for block in self.blocks:
            for target in _targets(block):
                before[target].append(block)
        self.loops: dict[Block, set[Block]] = {}
        for source, header in back:
            if not self.dominance.dominates(header, source):
                raise Refused(ending(source), "an irreducible loop", "enter the loop at one block only")
            body, waiting = self.loops.setdefault(header, {header}), [source]
            while waiting:
                if (block := waiting.pop()) not in body:
                    body.add(block)
                    waiting += before[block]
        self.after = self._post_dominators()

    def _search(self, block: Block, path: list[Block]) -> list[tuple[Block, Block]]:
        """Appends the blocks that are reached from a block, and returns the jumps back among them."""
        self.blocks.append(block)
        back = []
        for target in _targets(block):
            if target is block or target in path:
                back.append((block, target))
            elif target not in self.blocks:
                back += self._search(target, [*path, block])
        return back

    def _post_dominators(self) -> dict[Block, set[Block]]:
        """Returns for each block those that all paths from it to an end come to, with itself."""
        after = {block: set(self.blocks) if _targets(block) else {block} for block in self.blocks}
        changed = True
        while changed:
            changed = False
            for block in reversed(self.blocks):
                if targets := _targets(block):
                    found = {block} | set.intersection(*(after[each] for each in targets))
                    changed |= found != after[block]
                    after[block] = found
        ended = [block for block in self.blocks if not _targets(block)]
        for block in self.blocks:
            if not any(self._leads(block, end) for end in ended):
                raise Refused(ending(block), "a loop without an end", "leave it with cf.cond_br")
        return after

    def _leads(self, block: Block, end: Block) -> bool:
        seen, waiting = set[Block](), [block]
        while waiting:
            each = waiting.pop()
            if each is end:
                return True
            if each not in seen:
                seen.add(each)
                waiting += _targets(each)
        return False

    def join(self, targets: list[Block]) -> Block | None:
        """Returns the nearest block that all paths from some blocks come to, or None."""
        common = set.intersection(*(self.after[each] for each in targets))
        return max(common, key=lambda block: len(self.after[block]), default=None)

    def exits(self, header: Block) -> list[Block]:
        """Returns the blocks to which a loop is left."""
        body = self.loops[header]
        found = [target for block in self.blocks if block in body for target in _targets(block)]
        return list(dict.fromkeys(target for target in found if target not in body))


def _targets(block: Block) -> list[Block]:
    return list(block.last_op.successors) if block.last_op is not None else []


def edges(op: Operation) -> tuple[list[int], list[Edge]]:
    """Returns the jumps of an operation of ``cf``, the default last, and what its operand is compared with."""
    sizes = integers(op, "operandSegmentSizes")
    match name_of(op):
        case "cf.br":
            return [], [Edge(op.successors[0], list(op.operands))]
        case "cf.cond_br":
            middle = 1 + sizes[1]
            return [1], [Edge(op.successors[0], list(op.operands[1:middle])),
                         Edge(op.successors[1], list(op.operands[middle:]))]  # fmt: skip
        case "cf.switch":
            cases, starts = integers(op, "case_values"), [1 + sizes[1]]
            for size in integers(op, "case_operand_segments"):
                starts.append(starts[-1] + size)
            jumps = [Edge(op.successors[n + 1], list(op.operands[a:b]))
                     for n, (a, b) in enumerate(pairwise(starts))]  # fmt: skip
            if len(jumps) != len(cases) or len(op.successors) != len(cases) + 1:
                raise Malformed(op, "its cases are not as many as its blocks")
            return cases, [*jumps, Edge(op.successors[0], list(op.operands[1 : starts[0]]))]
    raise Refused(op, "an operation that ends a block and is not known here", "use cf.br, cf.cond_br or cf.switch")


class Structured:
    """A region of several blocks in the making, by the lowering of the function that it is in."""

    def __init__(self, lowering: Lowering, region: Region) -> None:
        self.low, self.flow = lowering, Flow(region)
        ends = [ending(block) for block in self.flow.blocks if not _targets(block)]
        self.results = [lowering.named(literal(stored(ends[0], each.type), 0)) for each in ends[0].operands]
        self.locals: dict[Block, list[Var]] = {}  # of the arguments of joins, headers and exits that lie ahead
        self.inside: list[tuple[Block, list[Block], Var]] = []  # the header of each open loop, and its exits
        self.lowered = 0

    def run(self) -> list[Var]:
        """Lowers all blocks, and returns what the region gives."""
        self.path(self.flow.first, None)
        return self.results

    def path(self, block: Block, follow: Block | None) -> None:
        """Lowers a block and all that comes after it up to ``follow``, which stands behind what is open now."""
        self.lowered += 1
        if self.lowered > LIMIT:
            raise Refused(ending(block), f"branches that share so much that they become {LIMIT} blocks", "use scf.if")
        if block in self.locals:
            self.bind(block, self.locals.pop(block))
        if block in self.flow.loops:
            self.loop(block, follow)
        else:
            self.straight(block, follow)

    def bind(self, block: Block, values: list[Any]) -> None:
        self.low.values.update(zip(block.args, values, strict=True))

    def declare(self, block: Block) -> None:
        """Gives the arguments of a block locals, which each jump to it assigns."""
        if block not in self.locals:
            zeros = [literal(stored(ending(block), each.type), 0) for each in block.args]
            self.locals[block] = [self.low.named(zero) for zero in zeros]

    def straight(self, block: Block, follow: Block | None) -> None:
        self.low.escape(block.args)
        last = self.low.block(block)
        if not last.successors:
            self.low.assign(self.results, self.low.of(last.operands))
            return
        cases, jumps = edges(last)
        tests = list[Expr]()
        if cases:
            selector = self.low.values[last.operands[0]]
            type_ = stored(last, last.operands[0].type)
            tests = [Binary(BinaryOp.EQ, selector, literal(type_, case)) for case in cases]
            if name_of(last) == "cf.cond_br":
                tests = [selector]
        if cases and (known := constant(last.operands[0])) is not None and name_of(last) == "cf.switch":
            tests = [Literal.of(ScalarType.BOOL, known == case) for case in cases]
        self.choose(tests, jumps, self.flow.join([each.target for each in jumps]), follow)

    def choose(self, tests: list[Expr], jumps: list[Edge], join: Block | None, follow: Block | None) -> None:
        """Lowers the first jump whose test holds, the last one if none does, and the join behind them."""
        if len(jumps) == 1:
            self.go(jumps[0], follow)
            return
        inner = None if join is follow or join is None or self.leaves(join) else join
        if inner is not None:
            self.declare(inner)
        after = follow if inner is None else inner
        for test, jump in zip(tests, jumps, strict=False):
            self.low.builder.if_(test)
            self.go(jump, after)
            self.low.builder.else_()
        self.go(jumps[-1], after)
        for _ in tests:
            self.low.builder.close()
        if inner is not None:
            self.path(inner, follow)

    def leaves(self, block: Block) -> bool:
        """Whether a jump to a block ends the round of the innermost loop."""
        if not self.inside:
            return False
        header = self.inside[-1][0]
        return block is header or block not in self.flow.loops[header]

    def go(self, jump: Edge, follow: Block | None) -> None:
        """Lowers a jump: the values that it passes, and then the block, if it is not reached without a jump."""
        target = jump.target
        if jump.passed is not None:
            values = self.low.of(jump.passed)
            if target in self.locals:
                self.low.assign(self.locals[target], values)
            else:
                self.bind(target, values)
        if target is follow:
            return
        if self.leaves(target):
            header, exits, which = self.inside[-1]
            if target is header:
                self.low.builder.continue_()
                return
            if len(exits) > 1:
                self.low.assign([which], [Literal.of(ScalarType.U32, exits.index(target))])
            self.low.builder.break_()
            return
        self.path(target, follow)

    def loop(self, header: Block, follow: Block | None) -> None:
        """Lowers a loop, and what comes behind it."""
        exits = self.flow.exits(header)
        carried = [self.low.named(each) for each in self.low.of(header.args)]
        self.bind(header, carried)
        which = self.low.named(Literal.of(ScalarType.U32, 0))
        for block in exits:
            self.declare(block)
        leaving = self.leaving(header)
        fresh = [value for value in leaving if value not in self.low.escaping]
        for value in fresh:
            self.low.escaping[value] = self.low.named(literal(stored(ending(header), value.type), 0))
        self.locals[header] = carried
        self.inside.append((header, exits, which))
        self.low.open_endless_loop()
        self.straight(header, header)
        self.low.builder.close()
        self.inside.pop()
        del self.locals[header]
        self.low.values.update((value, self.low.escaping[value]) for value in leaving)
        for value in fresh:
            del self.low.escaping[value]
        tests: list[Expr] = [Binary(BinaryOp.EQ, which, Literal.of(ScalarType.U32, n)) for n in range(len(exits) - 1)]
        self.choose(tests, [Edge(block, None) for block in exits], self.flow.join(exits), follow)

    def leaving(self, header: Block) -> list[SSAValue]:
        """Returns the values of a loop that are used behind it, but for the arguments of its header."""
        body = self.flow.loops[header]
        made = [value for block in self.flow.blocks if block in body and block is not header for value in block.args]
        made += [each for block in self.flow.blocks if block in body for op in block.ops for each in op.results]
        return [each for each in made if any(self.home(use.operation) not in body for use in each.uses)]

    def home(self, op: Operation) -> Block | None:
        """Returns the block of the region in which an operation is, at whatever depth."""
        block = op.parent_block()
        while block is not None and block.parent is not self.flow.first.parent:
            parent = block.parent_op()
            block = parent.parent_block() if parent is not None else None
        return block
