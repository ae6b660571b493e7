"""The driver's own cache is completed, never overruled."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cuda import stub as cuda_stub
from vyre.adapters.cuda.drivers import LEAST_BYTES, configure_jit_cache

BYTES = str(LEAST_BYTES)


@pytest.mark.parametrize(
    ("given", "added", "problem"),
    [
        ({}, {"CUDA_CACHE_MAXSIZE": BYTES}, ""),
        ({"CUDA_CACHE_MAXSIZE": ""}, {"CUDA_CACHE_MAXSIZE": BYTES}, ""),
        ({"CUDA_CACHE_DISABLE": "0"}, {"CUDA_CACHE_MAXSIZE": BYTES}, ""),
        ({"CUDA_CACHE_MAXSIZE": BYTES}, {}, ""),
        ({"CUDA_CACHE_MAXSIZE": "4294967296"}, {}, ""),
        ({"CUDA_CACHE_MAXSIZE": str(LEAST_BYTES - 1)}, {}, "is less than"),
        ({"CUDA_CACHE_MAXSIZE": "1G"}, {}, "is no number of bytes"),
        ({"CUDA_CACHE_DISABLE": "1"}, {}, "turns the driver's cache off"),
        ({"CUDA_CACHE_DISABLE": "1", "CUDA_CACHE_MAXSIZE": "5"}, {}, "turns the driver's cache off"),
        ({"CUDA_CACHE_PATH": "/elsewhere"}, {"CUDA_CACHE_MAXSIZE": BYTES}, ""),
    ],
)
def test_what_the_user_set_stands(given: dict[str, str], added: dict[str, str], problem: str) -> None:
    environment = dict(given)
    settings = configure_jit_cache(environment)
    assert environment == given | added
    assert settings.add == added
    assert problem in settings.problem
    assert bool(settings.problem) == bool(problem)


def test_it_is_done_before_the_driver_is_made() -> None:
    code = """
import os
os.environ.pop("CUDA_CACHE_MAXSIZE", None)
from vyre.adapters.cuda import drivers
drivers.library_problem = lambda: None
drivers.real_driver()
print(os.environ["CUDA_CACHE_MAXSIZE"])
"""
    assert cuda_stub.run(code, None).split() == [BYTES]


@pytest.mark.skipif(not cuda_stub.can_build(), reason=cuda_stub.NO_COMPILER)
def test_a_cache_that_is_off_is_told(tmp_path: Path) -> None:
    code = """
import os
os.environ["CUDA_CACHE_DISABLE"] = "1"
from vyre.adapters.cuda.registration import CUDA
from vyre.testing.recording_telemetry import RecordingTelemetry
from vyre.ports.backend import BackendServices

telemetry = RecordingTelemetry()
CUDA.make(BackendServices(telemetry=telemetry))
print(telemetry.events[0].name, telemetry.events[0].fields["problem"])
"""
    told = cuda_stub.run(code, cuda_stub.build(tmp_path))
    assert told.strip() == "vyre.cuda.driver_cache CUDA_CACHE_DISABLE=1 turns the driver's cache off"
