"""What ``vyre doctor`` shows about the CPU backend."""

from __future__ import annotations

import subprocess
import sys

import pytest

from support.limits import LIMIT_S
from vyre.adapters.cpu.facts import cpu_facts
from vyre.adapters.cpu.native.compilation import llvm_version
from vyre.adapters.cpu.native.features import host
from vyre.adapters.cpu.pool.options import default_threads, usable_cpus
from vyre.domain.errors import BackendUnavailable


def test_the_facts_are_those_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VYRE_CPU_THREADS", raising=False)
    monkeypatch.delenv("VYRE_CPU_AFFINITY", raising=False)
    facts = cpu_facts()
    assert facts["processor"].split() == [host().arch, *host().features]
    assert facts["lanes"].split()[0] == str(host().vector_bits // 32)
    assert facts["threads"].startswith(f"{default_threads()}, on CPUs ")
    assert facts["compiler"] == llvm_version()


def test_the_environment_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    first = min(usable_cpus())
    monkeypatch.setenv("VYRE_CPU_THREADS", "3")
    monkeypatch.setenv("VYRE_CPU_AFFINITY", str(first))
    assert cpu_facts()["threads"] == f"3, on CPUs {first}"
    monkeypatch.setenv("VYRE_CPU_THREADS", "none")
    with pytest.raises(BackendUnavailable, match="VYRE_CPU_THREADS='none'"):
        cpu_facts()


def test_a_missing_compiler_is_said_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vyre.adapters.cpu.facts.llvm_version", lambda: None)
    assert cpu_facts()["compiler"] == "none, so that only stored kernels run: pip install 'vyre[cpu]' adds it"


def test_the_compiler_is_not_imported() -> None:
    code = "import sys\nfrom vyre.adapters.cpu.facts import cpu_facts\ncpu_facts()\nprint('llvmlite' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT_S)
    assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr
