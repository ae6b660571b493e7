"""Small programs as machine code of the CPU emitter against the oracle: many programs at once, in many variants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from zlib import crc32

import numpy as np

from support.cpu.kernels import DIRECTLY, Runner, Variant, compiled, emitted, joins, launch_for
from support.fuzzing.programs import differences
from support.profiles import SOAK
from support.programs import Case, Order
from support.running import Failure, oracle
from vyre.adapters.cpu.native.compilation import Effort
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import StepBudgetExceeded
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import ScalarType
from vyre.domain.validation.validator import validate

VARIANTS: Final = (
    Variant(1),
    Variant(1, Effort.FULL, counting=True),
    Variant(1, Effort.QUICK, joined=True, wide=True, narrow=True),
    Variant(4, slow_gathers=True),
    Variant(8, counting=True),
    Variant(16, joined=True, slow_gathers=True),
    Variant(32),
    Variant(4, Effort.FULL, counting=True, joined=True),
    Variant(16, Effort.FULL, wide=True),
    Variant(8, Effort.QUICK, counting=True, narrow=True, slow_gathers=True),
    Variant(16, Effort.QUICK, joined=True),
    Variant(16, narrow=True, slow_gathers=True),
    Variant(32, Effort.FULL, narrow=True, slow_gathers=True),
)


def case(text: str, inputs: Mapping[str, Sequence[int] | bytes] | None = None, **config: Any) -> Case:
    """Returns the case of a program in text form.

    Inputs are bytes or numbers of the buffer's element type; missing ones are zero.  ``config`` has the fields of
    ``DispatchConfig``.
    """
    program = Program.from_text(text)
    report = validate(program)
    assert report.ok, str(report)
    given: dict[str, bytes] = {}
    for buffer in program.abi_buffers:
        if buffer.takes_input:
            found = (inputs or {}).get(buffer.name, [0] * buffer.count)
            assert isinstance(buffer.element, ScalarType)
            data = found if isinstance(found, bytes) else np.array(found, buffer.element.numpy_name).tobytes()
            given[buffer.name] = data
    return Case(program, given, DispatchConfig(**config), Order.INDEPENDENT)


def disagreements(cases: Mapping[str, Case], variants: Iterable[Variant] = VARIANTS) -> list[str]:
    """Returns a line for each program and variant of which machine code gives something else than the oracle.

    All that a variant asks for and a program does not permit is left out.  Code that does not count steps is not run
    where the budget ends a loop.  Of several programs each is run in every other one of ``VARIANTS``, which its name
    draws, but in a soak in all of them.
    """
    halved = variants is VARIANTS and len(cases) > 1 and not SOAK
    tasks = []
    for name, one in cases.items():
        expected = oracle(one)
        launch = launch_for(one.program, one.inputs, one.config)
        for variant in VARIANTS[crc32(name.encode()) % 2 :: 2] if halved else variants:
            over = isinstance(expected, Failure) and expected.kind is StepBudgetExceeded
            if over and not variant.counting:
                continue
            permitted = variant._replace(joined=variant.joined and joins(one.program, launch))
            text = emitted(one.program, one.config, launch.workgroup, permitted)
            tasks.append((name, one, expected, permitted, text))
    codes = compiled([(text, variant) for _, _, _, variant, text in tasks])
    runner = Runner()
    wrong = []
    for code, (name, one, expected, variant, _) in zip(codes, tasks, strict=True):
        found = runner.run(code, one.program, one.inputs, one.config, DIRECTLY)
        if found != expected:
            wrong.append(f"{name}, {variant.text}: {'; '.join(differences(expected, found))}")
    assert len({name for name, *_ in tasks}) == len(cases), "a program permits no variant"
    return wrong
