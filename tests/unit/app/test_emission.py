"""``emit`` asks the backends of a catalog for the target; it knows none of them and opens no device."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import pytest

from support.limits import LIMIT_S
from support.small_programs import saxpy_program
from vyre.adapters.discovery import load_catalog
from vyre.app.emission import choose_emission
from vyre.domain.artifact_key import ArtifactKey
from vyre.domain.device import EngineKind
from vyre.domain.errors import BackendUnavailable, InvalidConfig
from vyre.domain.ir.expr import Literal
from vyre.domain.ir.program import Program
from vyre.domain.names import BackendId
from vyre.domain.specialization import SpecMap
from vyre.ports.backend import BackendCatalog, BackendRegistration
from vyre.ports.emission import EmissionOptions

REFERENCE: Final = next(r for r in load_catalog().registrations if r.emission is None)


@dataclass(frozen=True)
class Written:
    text: str
    target: str

    def to_json(self) -> dict[str, Any]:
        return {"text": self.text, "target": self.target}


@dataclass(frozen=True)
class Listing:
    """An emitter of a plug-in: the target and the options, no code."""

    name: str
    targets: tuple[str, ...]
    assumptions: tuple[str, ...] = ()
    forms: tuple[str, ...] = ("list",)
    optimizes: EngineKind | None = None

    @property
    def default_target(self) -> str:
        return self.targets[-1]

    def emit(self, program: Program, options: EmissionOptions, spec: Mapping[str, Literal], /) -> Written:
        return Written(f"{self.name} {sorted(options.assume)} {options.grid_sync}", options.target)

    def keys(self, program: Program, options: EmissionOptions, spec: SpecMap, /) -> tuple[ArtifactKey, ...]:
        raise AssertionError("nobody asks for keys")


def registration(rank: int, emission: Listing | None) -> BackendRegistration:
    made = replace(REFERENCE, id=BackendId(f"b{rank}"), rank=rank)
    return made if emission is None else replace(made, emission=lambda: emission)


CATALOG: Final = BackendCatalog(
    (
        registration(30, Listing("late", ("risc", "shared"))),
        registration(10, None),
        registration(20, Listing("early", ("arm", "shared", "arm64"), ("warm",))),
    )
)


@pytest.mark.parametrize(
    ("target", "writer", "written"),
    [("risc", "late", "risc"), ("arm", "early", "arm"), ("shared", "early", "shared"), (None, "early", "arm64")],
)
def test_the_first_backend_that_knows_the_target_writes_it(target: str | None, writer: str, written: str) -> None:
    chosen = choose_emission(CATALOG, target)
    module = chosen.emission.emit(saxpy_program(), chosen.options, {})
    assert (module.text, module.target) == (f"{writer} [] native", written)


def test_the_options_are_those_of_the_backend() -> None:
    chosen = choose_emission(CATALOG, "arm", ["warm"], "split")
    assert chosen.options == EmissionOptions(target="arm", assume=frozenset({"warm"}), grid_sync="split", form="list")
    for target, assume, grid_sync, message in (
        ("risc", ["warm"], "native", "unknown assumption 'warm'"),
        ("arm", ["aligned16"], "native", "unknown assumption 'aligned16'. Fix: use some of warm"),
        ("arm", [], "both", "grid_sync='both' is no mode. Fix: use one of native, split"),
        ("sm_90", [], "native", "unknown target 'sm_90'. Fix: use one of arm, shared, arm64, risc."),
    ):
        with pytest.raises(InvalidConfig) as raised:
            choose_emission(CATALOG, target, assume, grid_sync)
        assert message in str(raised.value)


@pytest.mark.parametrize("target", ["arm", None])
def test_without_an_emitter_it_is_said(target: str | None) -> None:
    with pytest.raises(BackendUnavailable, match="no backend that emits code"):
        choose_emission(BackendCatalog((registration(10, None),)), target)


def test_emitting_imports_no_driver() -> None:
    code = """
import sys
sys.modules["cuda"] = None
import vyre
with vyre.ProgramBuilder("p", workgroup=64) as p:
    x = p.inout("x", vyre.u32)
    x[p.global_id()] = 1
assert vyre.emit(p.build(), target="sm_80").target == "sm_80"
heavy = {"vyre.adapters.cuda.driver", "vyre.adapters.cuda.runtime.device", "vyre.app.session"}
print(*sorted(heavy & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT_S)
    assert (done.returncode, done.stdout) == (0, "\n"), done.stderr


def test_a_form_is_one_of_the_backend() -> None:
    catalog = BackendCatalog((registration(10, Listing("two", ("vm",), forms=("words", "bytes"))),))
    assert choose_emission(catalog, "vm").options.form == "words"
    assert choose_emission(catalog, "vm", form="bytes").options.form == "bytes"
    with pytest.raises(InvalidConfig) as raised:
        choose_emission(catalog, None, form="ptx")
    assert str(raised.value) == "code for vm cannot be written as 'ptx'. Fix: use one of words, bytes."
