"""Syntax that kernels do not have, each with what to write instead."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from vyre.domain.frontend.lowering import Lowering

_INSTEAD: Final[dict[type[ast.AST], tuple[str, str]]] = {
    ast.ListComp: ("a list comprehension", "write a loop, or a tuple of the items."),
    ast.SetComp: ("a set comprehension", "write a loop."),
    ast.DictComp: ("a dict comprehension", "write a loop."),
    ast.GeneratorExp: ("a generator", "write a loop that adds up what it needs."),
    ast.List: ("a list", "write a tuple for fixed items, or vyre.private_array(f32, 8) for memory of the lane."),
    ast.Set: ("a set", "write a tuple: x in (1, 2, 3)."),
    ast.Dict: ("a dict", "use `match`, or pass the values as an array."),
    ast.JoinedStr: ("an f-string", "the tag of a trap is a plain text; put a number into its address."),
    ast.NamedExpr: ("`:=`", "write the assignment on a line of its own."),
    ast.Await: ("`await`", "a kernel runs from its first line to its last."),
    ast.Yield: ("`yield`", "store what the lane has found to an array."),
    ast.YieldFrom: ("`yield from`", "store what the lane has found to an array."),
    ast.Starred: ("`*`", "write each item."),
    ast.Slice: ("a slice", "loop over the elements."),
    ast.FunctionDef: ("`def`", "define it outside, with @vyre.function."),
    ast.AsyncFunctionDef: ("`async def`", "define a function outside, with @vyre.function."),
    ast.ClassDef: ("`class`", "keep the values in names of their own."),
    ast.Delete: ("`del`", "leave the name; it costs nothing."),
    ast.AsyncFor: ("`async for`", "write `for`."),
    ast.AsyncWith: ("`async with`", "write its body without it."),
    ast.With: ("`with`", "write its body without it; only `with vyre.grid_loop(limit, flag) as rounds:` exists."),
    ast.Raise: ("`raise`", 'write vyre.trap(number, "what happened"), which fails the dispatch.'),
    ast.Try: ("`try`", "test for what may go wrong: nothing raises in a kernel."),
    ast.Assert: ("`assert`", 'write `if not ...: vyre.trap(number, "what happened")`.'),
    ast.Import: ("`import`", "import the module outside the kernel."),
    ast.ImportFrom: ("`import`", "import the module outside the kernel."),
    ast.Global: ("`global`", "store to an array: a kernel changes nothing else."),
    ast.Nonlocal: ("`nonlocal`", "store to an array: a kernel changes nothing else."),
}
_TRY_STAR: Final = getattr(ast, "TryStar", None)


def refuse(k: Lowering, node: ast.AST) -> NoReturn:
    """Raises the error for syntax that kernels do not have."""
    kind: type[ast.AST] = ast.Try if _TRY_STAR is not None and isinstance(node, _TRY_STAR) else type(node)
    if isinstance(node, ast.Lambda):
        form = f"def f({ast.unparse(node.args)}): return {ast.unparse(node.body)}"
        k.fail(node, "a lambda cannot stand in a kernel", f"write `{form}` outside, with @vyre.function above it.")
    what, instead = _INSTEAD.get(kind, (f"`{type(node).__name__}`", "write it with assignments, branches and loops."))
    k.fail(node, f"{what} cannot stand in a kernel", instead)
