"""Filetests on the code of the CPU emitter, in one variant: the code of many files is compiled together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from support.cpu.kernels import LIMITS, Code, Runner, Variant, compiled, emitted, joins
from support.running import Failure
from vyre.adapters.reference.executor import HONOURED
from vyre.domain.dispatch import DispatchConfig, refuse_unsupported
from vyre.domain.errors import StepBudgetExceeded, TrapError, UnsupportedFeature
from vyre.domain.interface import resolve_launch
from vyre.domain.ir.program import BackendId, Program
from vyre.ports.requests import DispatchRequest, OutputStorage
from vyre.testing.filetests import load_filetests, run_filetest
from vyre.testing.outcomes import Outcome

CPU: Final = BackendId("cpu")
RACE_CHECKS: Final = "race checks"


class _Collected(Exception):
    """The request was noted and not run."""


class Matrix:
    """The outcomes of filetests in one variant; ``counting`` and ``joined`` follow from each run."""

    def __init__(self, variant: Variant) -> None:
        self._variant: Final = variant
        self._requests: dict[object, tuple[Program, DispatchConfig, Variant]] = {}
        self._codes: dict[object, Code] = {}
        self._runner: Final = Runner()
        self.executed = 0

    def run(self, paths: Sequence[Path]) -> Iterator[tuple[Path, Outcome]]:
        """Compiles all files, then runs them."""
        tests = [(path, test) for path in paths for test in load_filetests([path])]
        collector: Any = SimpleNamespace(executor=SimpleNamespace(execute=self._collect))
        for _, test in tests:
            list(run_filetest(replace(test, checks=()), collector))
        codes = compiled(
            [
                (emitted(program, config, config.workgroup or program.workgroup_size, variant), variant)
                for program, config, variant in self._requests.values()
            ]
        )
        self._codes = dict(zip(self._requests, codes, strict=True))
        backend: Any = SimpleNamespace(executor=SimpleNamespace(execute=self._execute))
        for path, test in tests:
            for outcome in run_filetest(replace(test, checks=()), backend):
                yield path, outcome

    def _collect(self, request: DispatchRequest, arena: OutputStorage) -> None:
        key, variant, _ = self._prepared(request)
        self._requests[key] = request.program, request.config, variant
        raise _Collected

    def _execute(self, request: DispatchRequest, arena: OutputStorage) -> None:
        key, _, inputs = self._prepared(request)
        self.executed += 1
        found = self._runner.run(self._codes[key], request.program, inputs, request.config)
        if isinstance(found, Failure):
            facts: Any = found.facts
            if found.kind is TrapError:
                raise TrapError(tag=facts[0], address=facts[1], global_id=facts[2])
            raise StepBudgetExceeded(budget=facts[0], global_id=facts[1])
        for view, data in zip(arena.begin(tuple(map(len, found.bytes.values()))), found.bytes.values(), strict=True):
            view[:] = data

    def _prepared(self, request: DispatchRequest) -> tuple[object, Variant, dict[str, bytes]]:
        """Returns the key of the code, the variant and the inputs; refuses what only the reference offers."""
        program, config = request.program, request.config
        refuse_unsupported(config, CPU, HONOURED)
        if config.race_check:
            raise UnsupportedFeature(feature=RACE_CHECKS, backend=CPU)
        launch = resolve_launch(program, tuple([view.nbytes for view in request.inputs]), config, LIMITS)
        names = [buffer.name for buffer in program.abi_buffers if buffer.takes_input]
        inputs = {name: bytes(view) for name, view in zip(names, request.inputs, strict=True)}
        variant = self._variant._replace(
            counting=config.step_budget is not None,
            joined=self._variant.joined and joins(program, launch),
        )
        return (id(program), launch.workgroup, variant, config.spec), variant, inputs
