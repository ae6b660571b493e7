"""Cases that are programs with their inputs and outputs, read from the files in ``programs``.

A file has the cases of a group.  Lines that begin with ``;;`` part it::

    ;; frame                                  the text around what is no whole program, with ... in its place
    ;; rule NAME [needs NAME ...]: WORDS      a rule, and what a backend must offer
    ;; case NAME                              a program under that rule; without it, the rule has one program

A program has ``; run:`` comments as a filetest has them (docs/filetests.md).
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any, Final

from vyre.domain.errors import VyreError
from vyre.domain.ir.buffers import inputs_of, outputs_of
from vyre.domain.validation.validator import check_rules
from vyre.testing.backend_contract.bench import Bench, Violation
from vyre.testing.backend_contract.case import Check, Group
from vyre.testing.filetest_syntax import ExpectedError, Filetest, Run, parse_filetest
from vyre.testing.filetests import answer_difference, error_difference

_FOLDER: Final = Path(__file__).parent / "programs"
_PART: Final = re.compile(r"^;; (frame|rule|case)\b[ ]?(\w*)(?: needs ([\w ]+))?(?:: (.*))?\n", re.MULTILINE)


def add_programs(group: Group) -> None:
    """Adds the cases of the file that has the name of the group."""
    name = f"{group.name}.vyre"
    parts = _PART.split((_FOLDER / name).read_text(encoding="utf-8"))
    frame, rule, words, needs = "...", "", "", ()
    for kind, word, needed, text, body in zip(*[iter(parts[1:])] * 5, strict=True):
        if kind == "frame":
            frame = body
            continue
        if kind == "rule":
            rule, words, needs = word, text, tuple((needed or "").split())
        if "\n;;" in f"\n{body}":
            raise ValueError(f"{name}: {rule} is followed by a line with ;; that is no frame, rule or case")
        if body.strip():
            key = rule if kind == "rule" else f"{rule}.{word}"
            group.add(key, words, needs, _check(body, frame, f"{name}: {key}"))


def _check(body: str, frame: str, name: str) -> Check:
    return lambda bench: _run(bench, _parsed(body, frame, name))


@cache
def _parsed(body: str, frame: str, name: str) -> Filetest:
    runs, code = (
        "".join(line for line in body.splitlines(keepends=True) if line.startswith(";") is comment)
        for comment in (True, False)
    )
    text = code if code.startswith("workgroup_size") else frame.replace("...", code.strip())
    test = parse_filetest(runs + text, name)
    assert test.program is not None
    check_rules(test.program).raise_if_invalid()
    return test


def _run(bench: Bench, test: Filetest) -> None:
    """Raises ``Violation`` unless every run of the program has the expected outputs or the expected error."""
    program = test.program
    assert program is not None
    for run in test.runs:
        config = run.settings(program)
        bench.need_room(config.get("workgroup") or program.workgroup_size, config.get("grid") or (1, 1, 1))
        inputs = [run.inputs[buffer.name] for buffer in inputs_of(program.buffers)]
        difference = _difference(bench, test, run, inputs, config)
        if difference is not None:
            raise Violation(difference)


def _difference(bench: Bench, test: Filetest, run: Run, inputs: list[bytes], config: dict[str, Any]) -> str | None:
    program = test.program
    assert program is not None
    if isinstance(run.expected, ExpectedError):
        return error_difference(bench.refuses(VyreError, program, *inputs, **config), run.expected)
    names = [buffer.name for buffer in outputs_of(program.buffers)]
    return answer_difference(run, program, dict(zip(names, bench.run(program, *inputs, **config), strict=True)))
