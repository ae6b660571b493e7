"""Operations with native text: the device's compiler and the definition agree, and a text that differs is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpu_runs.check.judging import judged
from gpu_runs.context import Context
from gpu_runs.findings import Fact, Finding
from vyre import Lowering, Operation
from vyre.app.dialects.verification import CheckedLowerings, LoweringReport, verify_lowerings
from vyre.app.opening import open as open_session
from vyre.domain.ir.definitions import Definition
from vyre.domain.ir.text_parser import parse_definition

DISTANCE: Final = parse_definition(
    """define check.distance version 1.0.0 (a: u32, b: u32, c: u32) -> u32 {
      let difference = a - b
      if a < b {
        difference := b - a
      }
      result difference + c
    }""",
    "check.distance",
)
TURNED: Final = parse_definition(
    "define check.turned version 1.0.0 (a: u32, b: u32, by: u32 const) -> u32 { result rotl(a, by) + b }",
    "check.turned",
)
HIGH: Final = parse_definition(
    "define check.high version 1.0.0 (a: u64, n: u32) -> u64 { result rotl(a, 7u) ^ (cast<u64>(n) << 32u) }",
    "check.high",
)
ROUNDED: Final = parse_definition(
    "define check.rounded version 1.0.0 (a: f32, b: f32) -> f32 { result fma(a, b, a) }", "check.rounded"
)
TEXTS: Final = {
    "an absolute difference": (DISTANCE, "sad.u32 {out}, {0}, {1}, {2};"),
    "an attribute": (TURNED, "shf.l.wrap.b32 {a:u32}, {0}, {0}, {#2};\nadd.u32 {out}, {a:u32}, {1};"),
    "words of 64 bits": (
        HIGH,
        "shl.b64 {l:u64}, {0}, 7;\nshr.u64 {h:u64}, {0}, 57;\nor.b64 {r:u64}, {l:u64}, {h:u64};\n"
        "cvt.u64.u32 {n:u64}, {1};\nshl.b64 {m:u64}, {n:u64}, 32;\nxor.b64 {out}, {r:u64}, {m:u64};",
    ),
    "floats": (ROUNDED, "fma.rn.f32 {out}, {0}, {1}, {0};"),
}
WRONG: Final = (DISTANCE, "sad.s32 {out}, {0}, {1}, {2};")


def native(context: Context) -> Iterator[Finding]:
    for name, (definition, text) in TEXTS.items():
        report = _report(context, definition, text)
        usable = report.verdict is not None and report.verdict.is_usable
        yield judged(name, usable, str(report))
        if report.verdict is not None:
            yield Fact(name, report.verdict.cases)
    report = _report(context, *WRONG)
    found = report.verdict is not None and report.verdict.difference is not None
    yield judged("a difference of numbers with a sign", found, str(report))


def _report(context: Context, definition: Definition, text: str) -> LoweringReport:
    operation = Operation.of(definition, lowerings={context.backend: Lowering.native(definition, "ptx", text)})
    with open_session("reference") as reference:
        (report,) = verify_lowerings(
            [operation], lambda _: (definition,), open_session, reference.dispatch, CheckedLowerings(None)
        )
    return report
