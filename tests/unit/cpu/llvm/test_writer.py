"""``Writer``: what is written once, what is written before a loop, and that every operand dominates its use."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from support.cpu.fuzzing import case_of, plans
from support.cpu.kernels import emitted, launch_for
from support.limits import LIMIT_S
from vyre.adapters.cpu.llvm.writer import Writer
from vyre.adapters.cpu.native.compilation import Effort, assembly
from vyre.adapters.cpu.native.features import host


def _lines(w: Writer) -> list[str]:
    return [line.strip() for line in w.text().splitlines()]


def test_an_equal_instruction_is_written_once() -> None:
    w = Writer()
    first = w.pure("add i32 {}, {}", "%a", "%b")
    assert w.pure("add i32 {}, {}", "%a", "%b") == first
    assert w.pure("add i32 {}, {}", "%b", "%a") != first
    assert w.here("add i32 %a, %b") != first
    assert len(_lines(w)) == 3


def test_an_instruction_of_a_branch_is_not_known_after_it() -> None:
    w = Writer()
    outer = w.pure("add i32 {}, {}", "%a", "%b")
    w.branch("%c", "yes", "no")
    w.open_scope()
    w.place("yes")
    assert w.pure("add i32 {}, {}", "%a", "%b") == outer
    inner = w.pure("mul i32 {}, {}", "%a", "%b")
    w.close_scope()
    w.open_scope()
    w.place("no")
    assert w.pure("mul i32 {}, {}", "%a", "%b") != inner
    w.close_scope()
    assert w.pure("add i32 {}, {}", "%a", "%b") == outer


def test_what_a_loop_does_not_change_stands_before_it() -> None:
    w = Writer()
    w.open_loop("outer")
    a = w.here("load i32, ptr %p")
    w.open_loop("inner")
    b = w.here("load i32, ptr %q")
    free = w.pure("add i32 {}, {}", "%x", "1")
    of_outer = w.pure("add i32 {}, {}", a, free)
    of_inner = w.pure("add i32 {}, {}", of_outer, b)
    w.close_loop("between")
    assert w.pure("add i32 {}, {}", "%x", "1") == free
    assert w.pure("add i32 {}, {}", a, free) == of_outer
    again = w.pure("add i32 {}, {}", of_outer, b)
    assert again != of_inner, "the loop's own values are not known after it"
    w.close_loop("after")
    assert w.pure("add i32 {}, {}", "%x", "1") == free
    lines = _lines(w)
    places = {
        name: next(n for n, line in enumerate(lines) if line.startswith(f"{name} =")) for name in (free, of_outer)
    }
    assert places[free] < lines.index("outer:") < places[of_outer] < lines.index("inner:")
    assert (w.level(free), w.level(of_outer), w.level(of_inner)) == (0, 1, 2)


def test_what_is_hoisted_out_of_a_branch_in_a_loop_stays_known() -> None:
    w = Writer()
    w.open_loop("head")
    w.open_scope()
    w.place("branch")
    hoisted = w.pure("add i32 {}, {}", "%x", "2")
    w.close_scope()
    assert w.pure("add i32 {}, {}", "%x", "2") == hoisted
    w.open_scope()
    assert w.pure("add i32 {}, {}", "%x", "2") == hoisted
    w.close_scope()
    w.close_loop("after")
    assert sum("add i32 %x, 2" in line for line in _lines(w)) == 1


def test_entry_lines_are_known_everywhere() -> None:
    w = Writer()
    w.open_loop("head")
    w.open_scope()
    found = w.at_entry("load i64, ptr %frame")
    w.remember_everywhere("word", found)
    w.close_scope()
    w.close_loop("after")
    assert w.known("word") == found
    assert w.level(found) == 0
    assert _lines(w)[0].startswith(f"{found} =")


def test_locations_and_weights() -> None:
    w = Writer()
    w.location = ", !dbg !9"
    w.pure("add i32 {}, {}", "%a", "%b")
    w.branch("%c", "yes", "no", likely=True)
    lines = _lines(w)
    assert lines[0].endswith(", !dbg !9") and lines[1].endswith("!prof !1, !dbg !9")
    assert list(w.module) == ['!1 = !{!"branch_weights", i32 1000, i32 1}']


@pytest.mark.parametrize("part", range(2))
def test_every_operand_dominates_its_use_in_random_programs(part: int) -> None:
    """LLVM refuses text in which one does not."""
    for seed in range(7000 + 8 * part, 7008 + 8 * part):
        case = case_of(seed)
        launch = launch_for(case.program, case.inputs, case.config)
        for plan in plans(seed, case):
            text = emitted(case.program, case.config, launch.workgroup, plan.variant).text
            assert assembly(text, host(), Effort.LIGHT)


_DIGESTS = """
import hashlib
from pathlib import Path
from support.cpu.fuzzing import case_of, plans
from support.cpu.kernels import emitted, launch_for
from support.cuda.ptx_digests import FILETESTS
from vyre.adapters.cpu.llvm.emit import emit
from vyre.testing.filetests import load_filetests
digest = hashlib.sha256()
for seed in range(300, 312):
    case = case_of(seed)
    launch = launch_for(case.program, case.inputs, case.config)
    for plan in plans(seed, case):
        digest.update(emitted(case.program, case.config, launch.workgroup, plan.variant).text.encode())
tickets = Path(FILETESTS) / "atomics" / "tickets_in_rounds.vyre"  # its vectors keep two locals that are assigned
digest.update(emit(next(iter(load_filetests([tickets]))).program).text.encode())
print(digest.hexdigest())
"""


def test_the_text_is_the_same_in_every_process() -> None:
    found = set()
    for hash_seed in ("0", "1"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        done = subprocess.run(
            [sys.executable, "-c", _DIGESTS],
            capture_output=True,
            text=True,
            env=environment,
            timeout=LIMIT_S,
            check=True,
        )
        found.add(done.stdout)
    assert len(found) == 1


def test_the_text_is_the_same_every_time() -> None:
    for seed in range(300, 312):
        case = case_of(seed)
        launch = launch_for(case.program, case.inputs, case.config)
        for plan in plans(seed, case):
            first, second = (emitted(case.program, case.config, launch.workgroup, plan.variant) for _ in range(2))
            assert first == second
