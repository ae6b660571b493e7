"""The suites of numerics in each floating-point mode.

The operator matrix, random programs and recorded programs run on each backend in each mode of the calling thread: read
from text, compiled and run there.  Their bytes are those of the oracle in the default mode.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from functools import cache
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple

from support.reference.float_modes import MODES, control, float_mode
from vyre.domain.dispatch import DEFAULT_CONFIG, DispatchConfig
from vyre.domain.errors import BackendError, UnsupportedFeature
from vyre.domain.ir.program import Program
from vyre.ports.backend import Backend
from vyre.testing.conformance import read_cases, run_cases
from vyre.testing.execution import execute, open_backend
from vyre.testing.operator_matrix import operator_matrix
from vyre.testing.outcomes import Verdict
from vyre.testing.random_programs.generator import generate

DEFAULT: Final = "default"
EIGHT: Final = (DEFAULT, *MODES)
BACKENDS: Final = ("reference", "cuda-machine", "reference-scalar", "cpu")
VECTORS: Final = Path(__file__).parents[2] / "data" / "vectors"
RECORDED: Final = ("ir-conformance.json.xz", "oracle-programs.jsonl.xz", "oracle-scalar-ops.jsonl.xz")


class Numeric(NamedTuple):
    """A program with inputs; ``text`` is what is read in the mode."""

    name: str
    text: str
    inputs: Mapping[str, bytes]
    config: DispatchConfig


@cache
def operators() -> tuple[Numeric, ...]:
    """The operator matrix, which has the functions, too."""
    return tuple(Numeric(c.name, c.program.to_text(), c.inputs, DEFAULT_CONFIG) for c in operator_matrix())


def random_programs(seed: int, count: int) -> tuple[Numeric, ...]:
    """Random programs without races; their bytes depend on no order."""
    cases = [(at, generate(at)) for at in range(seed, seed + count)]
    return tuple(Numeric(f"random {at}", case.program.to_text(), case.inputs, case.config) for at, case in cases)


def outcome(backend: Backend, case: Numeric) -> object:
    """The bytes by buffer, or the error of the program."""
    try:
        return execute(backend, Program.from_text(case.text), case.inputs, case.config)
    except UnsupportedFeature:
        return None
    except BackendError as error:
        return type(error).__name__


_EXPECTED: Final[dict[str, object]] = {}


def expected(case: Numeric) -> object:
    """What the oracle gives in the default mode."""
    if case.name not in _EXPECTED:
        _EXPECTED[case.name] = outcome(_oracle(), case)
    return _EXPECTED[case.name]


@cache
def _oracle() -> Backend:
    return open_backend("reference-scalar")


def _mode(name: str) -> AbstractContextManager[object]:
    return nullcontext() if name == DEFAULT else float_mode(name)


def differences(backend: str, mode: str, cases: Sequence[Numeric]) -> Iterator[str]:
    """The cases whose bytes are others on a backend that is opened in the mode."""
    wanted = [expected(case) for case in cases]
    with _mode(mode):
        before, opened = control(), open_backend(backend)
        found = [outcome(opened, case) for case in cases]
        opened.lifecycle.close()
        after = control()
    if after != before:
        yield f"{backend}, {mode}: the mode of the caller is not given back"
    for case, right, result in zip(cases, wanted, found, strict=True):
        if result is not None and result != right:
            yield f"{backend}, {mode}: {case.name}"


@dataclass(slots=True)
class Campaign:
    """A run of everything on each backend in each mode, with so many random programs; ``cases`` counts those of each.

    It is written down after each mode, and goes on where the one ended that a file tells of.
    """

    first_seed: int
    programs: int
    python: str = field(default_factory=platform.python_version)
    machine: str = field(default_factory=platform.machine)
    cases: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    @classmethod
    def continued(cls, path: Path, first_seed: int, programs: int) -> Campaign:
        """Returns the campaign of a file that has not come to its end, or a new one."""
        if path.is_file():
            earlier = cls(**json.loads(path.read_text("utf-8")))
            if len(earlier.cases) < len(BACKENDS) * len(EIGHT):
                return earlier
        return cls(first_seed, programs)

    def run(self, path: Path) -> None:
        """Runs the operator matrix, random programs, and the recorded programs and tables, where they have not been."""
        cases = (*operators(), *random_programs(self.first_seed, self.programs))
        for backend, mode in product(BACKENDS, EIGHT):
            name = f"{backend}, {mode}"
            if name not in self.cases:
                self.failures += differences(backend, mode, cases)
                self.cases[name] = len(cases) + self._recorded(backend, mode)
                path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    def _recorded(self, backend: str, mode: str) -> int:
        with _mode(mode):
            opened = open_backend(backend)
            outcomes = [each for name in RECORDED for each in run_cases(read_cases(VECTORS / name), opened)]
            opened.lifecycle.close()
        failed = [each for each in outcomes if each.verdict is Verdict.FAILED]
        self.failures += [f"{backend}, {mode}: {each.name}: {each.reason}" for each in failed]
        return len(outcomes)
