"""Passes on programs that call definitions which they bring along."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from support.running import oracle
from support.small_programs import case_of
from vyre.domain.dialects.expansion import expanded
from vyre.domain.ir.expr import Call
from vyre.domain.ir.node_facts import node_facts
from vyre.domain.ir.program import Program
from vyre.domain.optimize.copies import COPIES
from vyre.domain.optimize.dead_code import DEAD_CODE
from vyre.domain.optimize.folding import FOLDING
from vyre.domain.optimize.inlining import INLINING
from vyre.domain.optimize.numbering import NUMBERING
from vyre.domain.optimize.passes import Pass
from vyre.domain.validation.validator import validate

CALLS = """program k
workgroup_size 4, 1, 1
buffer out @0 write u32[16]
buffer x @1 read_write u32[16]
define acme.twice version 1.0.0 (a: u32, b: u32) -> u32 {
  let c = a + b
  result c + c
}
define acme.more version 1.0.0 (a: u32) -> u32 {
  result acme.twice(a, 2u + 3u)
}
body {
  let i = cast<i32>(gid.x)
  let j = 1u + 2u
  let a = acme.more(x[gid.x] + j)
  x[gid.x] = 9u
  let b = acme.twice(a, cast<u32>(i))
  let c = acme.twice(cast<u32>(i), j)
  out[gid.x] = b + acme.twice(a, cast<u32>(i)) + acme.twice(cast<u32>(cast<i32>(acme.more(j))), 7u)
}
"""


STEPS = (COPIES, DEAD_CODE, FOLDING, INLINING, NUMBERING)


def kept(*passes: Pass) -> Program:
    """The program after passes, which must give the same bytes when its calls have been expanded.

    ``run_passes`` expands calls before; these passes could be asked without it.
    """
    case = case_of(Program.from_text(CALLS))
    made = case.program
    for step in passes:
        made = step.run(made, Counter())
    validate(made).raise_if_invalid()
    assert oracle(replace(case, program=expanded(made))) == oracle(replace(case, program=expanded(case.program)))
    return made


@pytest.mark.parametrize("step", STEPS, ids=str)
def test_a_pass_keeps_the_results_of_calls(step: Pass) -> None:
    assert kept(step).body != Program.from_text(CALLS).body


def test_calls_are_values_like_others() -> None:
    made = kept(COPIES, NUMBERING, COPIES, INLINING, DEAD_CODE).to_text()
    assert "let a = acme.more(x[gid.x] + j)\n" in made
    assert "out[gid.x] = b + b + acme.twice(" in made and "let c = acme" not in made


def test_calls_stay_calls() -> None:
    made = kept(*STEPS, *STEPS)
    assert Call in node_facts(made).types and made.definitions
