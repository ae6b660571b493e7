"""The campaign on the optimizer: it finds nothing in the passes, and finds a pass that is wrong."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from support.optimizer import fuzzing as optimizer_fuzzing
from support.optimizer.fuzzing import OptimizerCampaign, try_batch
from vyre.domain.ir.program import Program
from vyre.domain.ir.rebuilding import rebuilt
from vyre.domain.ir.stmt import Store
from vyre.domain.optimize.pass_list import PASSES
from vyre.domain.optimize.passes import Pass

FIRST = 1_000_000
"""Seeds that no other test runs."""
SHARE = 40


def without_stores(program: Program, counts: Counter[str]) -> Program:
    body = rebuilt(program.body, lambda node: node)
    counts["lost"] += 1
    return replace(program, body=tuple(stmt for stmt in body if not isinstance(stmt, Store)))


@pytest.mark.parametrize("part", range(4))
def test_passes_in_random_orders_keep_every_byte_and_error(part: int) -> None:
    """Some programs; a campaign of ``support.optimizer.fuzzing`` has as many as there is time for."""
    found = try_batch(range(FIRST + SHARE * part, FIRST + SHARE * (part + 1)))
    assert not found.failures
    assert found.counts["programs"] == SHARE


def test_a_wrong_pass_is_found_and_reduced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wrong = Pass("wrong", 1, without_stores)
    monkeypatch.setattr(optimizer_fuzzing, "PASSES", {"wrong": wrong})
    monkeypatch.setattr(optimizer_fuzzing, "DEFAULT_ORDER", ("wrong",))
    campaign = OptimizerCampaign()
    campaign.run(20, record=tmp_path / "record.json")
    assert campaign.failed_seeds and len(campaign.failures) == len(campaign.failed_seeds)
    assert "difference" in campaign.failures[0] and "body {" in campaign.failures[0]
    monkeypatch.undo()
    again = OptimizerCampaign.resume(tmp_path / "record.json")
    again.run(again.next_seed, record=tmp_path / "record.json")
    assert again.failed_seeds == [] and again.programs == again.next_seed


def test_every_pass_takes_part() -> None:
    names = {name for seed in range(200) for name in optimizer_fuzzing.order_of(seed)}
    assert names == set(PASSES)


def test_a_record_goes_on_at_its_own_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = tmp_path / "record.json"
    monkeypatch.setattr(
        "sys.argv", ["fuzzing", "--seed", "7", "--programs", "2", "--workers", "1", "--out", str(record)]
    )
    assert optimizer_fuzzing.main() == 0
    assert OptimizerCampaign.resume(record).next_seed == 9
    with pytest.raises(SystemExit):
        optimizer_fuzzing.main()
