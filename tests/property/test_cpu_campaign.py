"""Random programs as machine code of the CPU emitter give the oracle's bytes, in every variant and on any threads."""

from __future__ import annotations

import os
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from support.children import Died, Notes, in_fork
from support.cpu import fuzzing as cpu_fuzzing
from support.cpu.fuzzing import CpuCampaign, case_of, plans
from support.cpu.kernels import emitted
from support.profiles import SOAK
from vyre.adapters.cpu.llvm.emit import EmittedCode
from vyre.adapters.cpu.llvm.options import LANES

RESULTS: Final = Path(__file__).parents[2] / "benchmarks" / "results"
PROGRAMS: Final = 48
PARTS: Final = 2


@pytest.mark.parametrize("part", range(PARTS))
def test_seeded_programs_agree(part: int) -> None:
    share = PROGRAMS // PARTS
    campaign = CpuCampaign.begin(part * share)
    campaign.run(share)
    assert not campaign.failures, campaign.failures[0]
    counts = Counter(campaign.counts)
    assert counts["programs"] == share
    assert counts["executions"] > 4 * share and counts["compared_bytes"] > 5_000
    assert all(counts[f"variant W{lanes}"] >= 3 for lanes in LANES)
    assert all(counts[f"variant {name}"] for name in ("light", "full", "counting", "exclusive", "narrow"))


def test_variants_follow_from_the_seed() -> None:
    assert list(plans(5, case_of(5))) == list(plans(5, case_of(5)))
    assert {plan.variant.lanes for seed in range(8) for plan in plans(seed, case_of(seed))} == set(LANES)


def _broken(monkeypatch: pytest.MonkeyPatch, *edits: tuple[str, str]) -> None:
    """Lets the emitter write wrong text."""

    def wrong(*arguments: object) -> EmittedCode:
        code = emitted(*arguments)  # type: ignore[arg-type]
        text = code.text
        for old, new in edits:
            text = text.replace(old, new)
        return replace(code, text=text)

    monkeypatch.setattr(cpu_fuzzing, "emitted", wrong)


def _failures(monkeypatch: pytest.MonkeyPatch) -> CpuCampaign:
    monkeypatch.setattr(cpu_fuzzing, "REDUCE_S", 1.0)
    campaign = CpuCampaign.begin(0)
    campaign.run(3, batch=3)
    assert campaign.failures and campaign.failed_seeds and campaign.programs < 3
    return campaign


def test_wrong_code_is_a_failure_with_its_program(monkeypatch: pytest.MonkeyPatch) -> None:
    _broken(monkeypatch, (" = sub ", " = add "), ("icmp ult i64", "icmp ule i64"), (" = xor ", " = and "))
    (failure, *_) = _failures(monkeypatch).failures
    assert "difference" in failure or "WrongAccess" in failure or "SIG" in failure
    assert "; run: " in failure and "body {" in failure


def test_a_crash_is_a_failure_of_its_program_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    _broken(monkeypatch, ("entry:\n", "entry:\n  store i8 1, ptr inttoptr (i64 16 to ptr)\n"))
    campaign = _failures(monkeypatch)
    assert "SIGSEGV" in campaign.failures[0] and "body {" in campaign.failures[0]


def test_text_that_llvm_refuses_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    _broken(monkeypatch, ("entry:\n", "entry:\n  %wrong = nonsense i32 0\n"))
    assert "KernelCompileFailed" in _failures(monkeypatch).failures[0]


def test_a_record_is_continued(tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    first = CpuCampaign.begin(40)
    first.run(2, record=record)
    second = CpuCampaign.resume(record)
    second.run(4, record=record)
    whole = CpuCampaign.begin(40)
    whole.run(4, batch=2)
    assert second.next_seed == whole.next_seed == 44
    assert second.counts == whole.counts
    assert CpuCampaign.resume(record) == second


def test_a_program_that_failed_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = tmp_path / "record.json"
    with monkeypatch.context() as patch:
        _broken(patch, ("entry:\n", "entry:\n  %wrong = nonsense i32 0\n"))
        patch.setattr(cpu_fuzzing, "REDUCE_S", 1.0)
        campaign = CpuCampaign.begin(0)
        campaign.run(1, record=record)
    assert campaign.failed_seeds == [0] and campaign.programs == 0
    again = CpuCampaign.resume(record)
    again.run(1, record=record)
    assert not again.failures and not again.failed_seeds and again.programs == 1


def _killed(notes: Notes) -> None:
    notes.note("about to be killed")
    os.kill(os.getpid(), signal.SIGKILL)


def _aborted(notes: Notes) -> None:
    os.write(2, b"assertion `x' failed")
    os.abort()


def test_a_fork_answers_raises_or_dies() -> None:
    assert in_fork(lambda notes: 5, 60) == 5
    with pytest.raises(ZeroDivisionError):
        in_fork(lambda notes: 1 // 0, 60)
    with pytest.raises(Died, match="SIGKILL while about to be killed"):
        in_fork(_killed, 60)
    with pytest.raises(Died, match=r"SIGABRT while it began: .*assertion"):
        in_fork(_aborted, 60)
    with pytest.raises(Died, match="timeout"):
        in_fork(lambda notes: signal.pause(), 0.05)


@pytest.mark.skipif(not SOAK, reason="a long run: set VYRE_SOAK=1 (make soak)")
def test_a_long_campaign_finds_no_disagreement() -> None:
    campaign = CpuCampaign.begin(1_000_000)
    campaign.run(20_000, record=RESULTS / "cpu-fuzzing.json")
    assert not campaign.failures, campaign.failures[0]
