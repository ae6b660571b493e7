"""The seam's suite, on the emulated driver, on the real adapter over the stub, and on a GPU."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Final

import pytest

from driver_contract import CASES, Case, run_cases
from support.cuda import stub as cuda_stub
from support.cuda.driver_record import NEVER, UNDEFINED, read_record, write_record
from vyre.adapters.cuda.driver import RealDriver
from vyre.adapters.cuda.machine.driver import MachineDriver
from vyre.adapters.cuda.machine.options import MachineOptions
from vyre.adapters.cuda.machine.presets import PRESETS
from vyre.adapters.cuda.machine.streams import StreamSchedule
from vyre.adapters.cuda.seam import CudaCallError
from vyre.testing.outcomes import Verdict

ON_STUB: Final = [pytest.param(case, id=case.name) for case in CASES if not case.needs_execution]
ON_GPU: Final = [pytest.param(case, id=case.name) for case in CASES if case.hardware]
MACHINES: Final = {
    "eager": MachineOptions(schedule=StreamSchedule.EAGER),
    "deferred": MachineOptions(seed=1),
    "t4": MachineOptions(preset=PRESETS["t4"], seed=2),
    "sm_120": MachineOptions(preset=PRESETS["sm_120"], seed=3),
}


RUN_ON_STUB: Final = """
import json
from vyre.adapters.cuda.driver import RealDriver
from driver_contract import CASES, run_cases
runnable = (case for case in CASES if not case.needs_execution)
print(json.dumps({outcome.name: outcome.reason for outcome in run_cases(runnable, RealDriver())}))
"""


def _why_no_gpu() -> str | None:
    driver = RealDriver()
    try:
        driver.init()
        return None if driver.device_count() else "no GPU: the driver has no device"
    except CudaCallError as error:
        return f"no GPU: {error}"


NO_GPU: Final = _why_no_gpu()


def test_names_tell_the_cases_apart() -> None:
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES])
def test_emulated_driver(case: Case, machine: str) -> None:
    driver = MachineDriver(MACHINES[machine])
    case.run(driver)
    assert not driver.violations


@pytest.fixture(scope="module")
def stub_failures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Case to why it failed, empty if it passed: all of them ran in one process."""
    if not cuda_stub.can_build():
        pytest.skip(cuda_stub.NO_COMPILER)
    folder = cuda_stub.build(tmp_path_factory.mktemp("cuda_stub"))
    outcomes: dict[str, str] = json.loads(cuda_stub.run(RUN_ON_STUB, folder))
    return outcomes


@pytest.mark.parametrize("case", ON_STUB)
def test_real_adapter_over_the_stub(case: Case, stub_failures: dict[str, str]) -> None:
    failure = stub_failures[case.name]
    assert not failure, failure


def test_a_driver_that_breaks_a_rule_is_found() -> None:
    class OtherVersion(MachineDriver):
        def driver_version(self) -> int:
            return 13

    failed = [o for o in run_cases(CASES, OtherVersion(MachineOptions())) if o.verdict is not Verdict.PASSED]
    assert [outcome.name for outcome in failed] == ["version_is_thousands_and_tens", "kernel_tells_its_parameters"]
    assert "assert " in failed[0].reason


@pytest.fixture(scope="module")
def gpu_record() -> Iterator[dict[str, bool]]:
    """Whether each case passed; in the end the record of verified cases is rewritten."""
    outcomes: dict[str, bool] = {}
    yield outcomes
    if outcomes:
        write_record(CASES, *([name for name, passed in outcomes.items() if passed is kind] for kind in (True, False)))


@pytest.mark.gpu
@pytest.mark.skipif(NO_GPU is not None, reason=str(NO_GPU))
@pytest.mark.parametrize("case", ON_GPU)
def test_real_driver(case: Case, gpu_record: dict[str, bool]) -> None:
    gpu_record[case.name] = False
    case.run(RealDriver())
    gpu_record[case.name] = True


def test_record_of_verified_cases_is_complete() -> None:
    record = read_record()
    fix = "Fix: call support.cuda.driver_record.write_record(CASES)"
    assert set(record) == {case.name for case in CASES}, fix
    for case in CASES:
        assert (record[case.name] == UNDEFINED) == (not case.hardware), f"{case.name}. {fix}"
        if record[case.name] not in (NEVER, UNDEFINED):
            assert date.fromisoformat(record[case.name]) <= date.today()


def test_record_keeps_dates_and_takes_new_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from support.cuda import driver_record

    monkeypatch.setattr(driver_record, "RECORD", tmp_path / "record.json")
    first, second, third = (case for case in CASES[:3])
    write_record((first, second), passed=[first.name, second.name])
    write_record((first, second, third), failed=[second.name])
    today = date.today().isoformat()
    assert read_record() == {first.name: today, second.name: NEVER, third.name: NEVER}
    write_record((third,))
    assert read_record() == {third.name: NEVER}
