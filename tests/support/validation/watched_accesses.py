"""The scalar oracle, telling which node makes every access and at which index."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Protocol, TypeAlias
from unittest.mock import patch

from vyre.adapters.reference import scalar_oracle
from vyre.adapters.reference.engine import Memory, RunOptions
from vyre.adapters.reference.scalar_oracle import ScalarCompiler, ScalarKernel
from vyre.adapters.reference.scalar_state import ElementBuffer, Evaluate, Execute, Lanes, Tracer, Values, Workgroup
from vyre.domain.ir.expr import Atomic, Expr, Literal, Load
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import Stmt, Store
from vyre.domain.ir.types import ScalarType
from vyre.domain.launch import Launch

Access: TypeAlias = Load | Store | Atomic


class Watcher(Protocol):
    """Sees accesses as they happen; ``tracer`` sees the same run as bytes, in the same order."""

    @property
    def tracer(self) -> Tracer | None: ...
    def access(self, node: Access, index: int, count: int, /) -> None: ...


class _Buffer(ElementBuffer):
    __slots__ = ()

    def load(self, index: int) -> int:
        _CURRENT.tell(index, self.count)
        return super().load(index)

    def store(self, index: int, bits: int) -> None:
        _CURRENT.tell(index, self.count)
        super().store(index, bits)


class _Current:
    """The access that is being made, and who is watching."""

    def __init__(self) -> None:
        self.node: Access | None = None
        self.watcher: Watcher | None = None

    def tell(self, index: int, count: int) -> None:
        if self.watcher is not None and self.node is not None:
            self.watcher.access(self.node, index, count)

    @contextmanager
    def at(self, node: Access) -> Iterator[None]:
        outer, self.node = self.node, node
        yield
        self.node = outer


_CURRENT: Final = _Current()


class _Compiler(ScalarCompiler):
    def expr(self, expr: Expr) -> tuple[Evaluate, ScalarType]:
        evaluate, dtype = super().expr(expr)
        if not isinstance(expr, Load | Atomic):
            return evaluate, dtype
        node = expr

        def watched(wg: Workgroup, lanes: Lanes) -> Values:
            with _CURRENT.at(node):
                return evaluate(wg, lanes)

        return watched, dtype

    def stmt(self, stmt: Stmt) -> Execute:
        execute = super().stmt(stmt)
        if not isinstance(stmt, Store):
            return execute
        node = stmt

        def watched(wg: Workgroup, lanes: Lanes) -> Lanes:
            with _CURRENT.at(node):
                return execute(wg, lanes)

        return watched


class _WatchedKernel:
    def __init__(self, kernel: ScalarKernel, watcher: Watcher) -> None:
        self._kernel, self._watcher = kernel, watcher

    def run(self, memory: Memory, launch: Launch, options: RunOptions, /) -> None:
        with patch.object(scalar_oracle, "ElementBuffer", _Buffer):
            _CURRENT.watcher = self._watcher
            try:
                self._kernel.run(memory, launch, options, self._watcher.tracer)
            finally:
                _CURRENT.watcher = None


class WatchedEngine:
    """Runs programs on the oracle; ``watch`` makes the watcher of each grid-sync segment."""

    def __init__(self, watch: Callable[[Program], Watcher]) -> None:
        self._watch = watch

    def __call__(self, program: Program, spec: Mapping[str, Literal], /) -> _WatchedKernel:
        with patch.object(scalar_oracle, "ScalarCompiler", _Compiler):
            kernel = ScalarKernel(program, spec)
        return _WatchedKernel(kernel, self._watch(program))
