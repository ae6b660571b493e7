"""Checks on emitted code: what they find, what they miss, and that each kind can fail."""

from __future__ import annotations

import re

import pytest

from vyre.domain.errors import MalformedText
from vyre.testing.execution import open_backend
from vyre.testing.filetest_checks import first_difference, parse_checks
from vyre.testing.filetest_syntax import parse_filetest
from vyre.testing.filetests import run_filetest
from vyre.testing.outcomes import Verdict

CODE = """.version 7.8
.target sm_90
{
\tld.global.b32 %r1, [%rd2];
\tadd.u32 %r2, %r1, 1;
\tst.global.b32 [%rd3], %r2;
\tret;
}
"""
KERNEL = """
workgroup_size 4, 1, 1
buffer x @0 read_write u32[4]
body { x[gid.x] = x[gid.x] + 1u }
"""


def difference(*lines: str) -> str | None:
    return first_difference(CODE, parse_checks("\n".join(f"; {line}" for line in lines), "code"))


@pytest.mark.parametrize(
    "lines",
    [
        ("check ptx: add.u32",),
        ("check ptx: .target sm_90", "check ptx: ld.global", "check ptx: st.global", "check ptx: ret;"),
        ("check ptx: add.u32   %r2,    %r1, 1;",),
        ("check ptx: add.u32 {{%r[0-9]+}}, {{%r[0-9]+}}, 1;",),
        ("check ptx: ret; }",),
        ("check-not ptx: mul",),
        ("check ptx: add", "check-not ptx: add", "check ptx: st.global", "check-not ptx: st.global"),
        ("check-not ptx: add", "check ptx: ld.global"),
        ("check ptx: [%rd2]",),
    ],
)
def test_checks_that_hold(lines: tuple[str, ...]) -> None:
    assert difference(*lines) is None


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (("check ptx: mul",), "line 1: `mul` does not appear behind line 1"),
        (("check ptx: st.global", "check ptx: ld.global"), "line 2: `ld.global` does not appear behind line 6"),
        (("check ptx: add", "check ptx: add"), "line 2: `add` does not appear behind line 5"),
        (("check-not ptx: add",), "line 1: `add` appears in line 5 of the code: add"),
        (
            ("check-not ptx: add.{{[us]}}32", "check ptx: st.global"),
            "line 1: .* appears in line 5 of the code: add.u32",
        ),
        (("check ptx: ld.global", "check-not ptx: ret"), "line 2: `ret` appears in line 7"),
        (("check ptx: add.u32%r2",), "does not appear"),
        (("check ptx: %rd.",), "does not appear"),
    ],
)
def test_checks_that_fail(lines: tuple[str, ...], reason: str) -> None:
    assert re.search(reason, difference(*lines) or "holds")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("; check ptx:", "no check line"),
        ("; check-not ptx:   ", "no check line"),
        ("; check sass: add", "no check line"),
        ("; check-maybe ptx: add", "no check line"),
        ("; check ptx level=3: add", "`level` is no option of a check"),
        ("; check ptx: {{(}}", "no regular expression"),
    ],
)
def test_check_lines_that_do_not_parse(line: str, message: str) -> None:
    with pytest.raises(MalformedText, match=message):
        parse_filetest(f"{line}\n{KERNEL}", "kernel.vyre")


def test_comments_that_only_begin_like_checks_are_comments() -> None:
    assert parse_checks("; check that\n; check\n; checks ptx: a\nx = 1u ; check ptx: a", "kernel.vyre") == ()


def outcomes(*lines: str, kernel: str = KERNEL) -> list[tuple[Verdict, str]]:
    text = "\n".join(f"; {line}" for line in lines) + kernel
    found = run_filetest(parse_filetest(text, "k.vyre"), open_backend("reference"))
    return [(o.verdict, o.reason) for o in found][1:]


def test_each_emission_has_an_outcome() -> None:
    found = outcomes(
        "check ptx: .target sm_90",
        "check ptx target=sm_75: .target sm_75",
        "check ptx target=sm_75: .target sm_90",
        "check ptx assume=noalias,aligned16: .entry",
    )
    assert [verdict for verdict, _ in found] == [Verdict.PASSED, Verdict.FAILED, Verdict.PASSED]
    assert "`.target sm_90` does not appear" in found[1][1]


@pytest.mark.parametrize("option", ["target=sm_12", "assume=luck", "grid_sync=never"])
def test_an_emission_that_is_refused_fails(option: str) -> None:
    ((verdict, reason),) = outcomes(f"check ptx {option}: add")
    assert verdict is Verdict.FAILED
    assert reason.startswith(("INVALID_CONFIG: ", "UNSUPPORTED_FEATURE: "))


def test_checks_of_an_invalid_program_fail() -> None:
    kernel = "\nworkgroup_size 1, 1, 1\nbuffer x @0 read_write u32[1]\nbody { x[0u] = 1i }"
    assert outcomes("check ptx: add", kernel=kernel) == [(Verdict.FAILED, "the program is invalid and cannot run")]
