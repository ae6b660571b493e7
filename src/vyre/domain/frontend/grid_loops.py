"""Grid loops: ``with vyre.grid_loop(limit, flag) as rounds:``."""

from __future__ import annotations

import ast
from typing import Final

from vyre.domain.frontend import intrinsics
from vyre.domain.frontend.assignment import set_name
from vyre.domain.frontend.blocks import run_body
from vyre.domain.frontend.call_arguments import bound
from vyre.domain.frontend.evaluation import expression
from vyre.domain.frontend.lowering import LoopState, Lowering, closed
from vyre.domain.frontend.names import Kind
from vyre.domain.frontend.operands import Array, Operand, Scalar, Thing
from vyre.domain.frontend.operators import typed, written
from vyre.domain.frontend.refused import refuse
from vyre.domain.ir.buffers import Access
from vyre.domain.ir.expr import Var
from vyre.domain.ir.stmt import GridLoop
from vyre.domain.ir.types import ScalarType

_U32: Final = ScalarType.U32
_OF_LANES: Final = (Access.WORKGROUP, Access.PRIVATE)


def with_block(k: Lowering, node: ast.With) -> bool:
    """Records ``with``, of which kernels know grid loops only."""
    item = node.items[0]
    call = item.context_expr
    if len(node.items) > 1 or not isinstance(call, ast.Call) or not _is_grid_loop(k, call.func):
        refuse(k, node)
    limit, operand = bound(k, call, ("limit", "flag"), 2)
    most = typed(k, limit, _U32, "the limit of a grid loop", call)
    flag = _flag(k, operand, call)
    target = item.optional_vars
    if target is not None and not isinstance(target, ast.Name):
        k.fail(target, "a grid loop gives one number", "write `with vyre.grid_loop(limit, flag) as rounds:`.")
    name = target.id if target is not None else "rounds"
    loc, unique = k.loc(node), k.unique(name)
    before = set(k.frame.assigned)
    k.frame.loops.append(LoopState(unrolled=False, whole_grid=True))
    with k.open() as body:
        run_body(k, node.body)
    k.frame.loops.pop()
    k.frame.assigned = before
    k.emit(GridLoop(unique, most.expr, flag.name, closed(body), loc=loc))
    if target is not None:
        rounds = Scalar(Var(unique, loc=loc), _U32)
        if k.plan(name).kind is Kind.VARIABLE:
            set_name(k, name, rounds, target)
        else:
            k.frame.env[name] = rounds
            k.frame.assigned.add(name)
    return True


def _is_grid_loop(k: Lowering, node: ast.expr) -> bool:
    callee = expression(k, node)
    return isinstance(callee, Thing) and callee.value is intrinsics.grid_loop


def _flag(k: Lowering, array: Operand, call: ast.Call) -> Array:
    if isinstance(array, Array) and array.element is _U32 and array.is_writable and array.access not in _OF_LANES:
        return array
    text = written(call.args[1]) if len(call.args) > 1 else "flag"
    k.fail(call, f"`{text}` cannot be the flag of a grid loop", "give a parameter that is InOut[u32] or Out[u32].")
