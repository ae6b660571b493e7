"""Device signatures: names find the right device, facts have a source, and a file that is wrong says where."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import pytest

import vyre
from support.small_programs import square_program
from vyre.adapters.cuda.machine.presets import H200, T4
from vyre.adapters.device_files import SignatureTable, signature_table
from vyre.app.known_devices import device_signatures, known_profile
from vyre.domain.device_signature import DeviceSignature
from vyre.domain.errors import InvalidConfig
from vyre.domain.signature_files import FACTS, MAX_SIGNATURE_BYTES, read_signatures
from vyre.testing import cuda_machine

TABLE: Final = signature_table()
SHIPPED: Final = TABLE.signatures
GENERATIONS: Final = [each for each in SHIPPED if each.max_sm == 0]


class Settings:
    """Environment variables of a test."""

    def __init__(self, **values: str) -> None:
        self._values = values

    def get(self, name: str, /) -> str | None:
        return self._values.get(name)


def test_shipped_files_are_right_and_each_fact_has_a_source() -> None:
    assert TABLE.diagnostics == () and len(GENERATIONS) == len({each.id for each in GENERATIONS}) == 7
    usual = DeviceSignature("x", "x")
    for signature in SHIPPED:
        assert signature.id == f"{signature.family}_{signature.architecture_generation}"
        stated = {name for name in FACTS if getattr(signature, name) != getattr(usual, name)}
        assert stated == {name for name, _ in signature.sources}
        assert all(source.strip() for _, source in signature.sources)


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("Tesla T4", "turing_75"),
        ("Quadro RTX 5000", "turing_75"),
        ("NVIDIA A100-SXM4-80GB", "ampere_80"),
        ("NVIDIA A30", "ampere_80"),
        ("NVIDIA RTX A4000", "ampere_86"),
        ("NVIDIA GeForce RTX 3090", "ampere_86"),
        ("NVIDIA RTX 5000 Ada Generation", "ada_89"),
        ("NVIDIA L40S", "ada_89"),
        ("NVIDIA H100 PCIe", "hopper_90"),
        ("Emulated H200", "hopper_90"),
        ("NVIDIA B200", "blackwell_100"),
        ("NVIDIA GeForce RTX 5090", "blackwell_120"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "blackwell_120"),
    ],
)
def test_names_of_devices(name: str, family: str) -> None:
    assert {each.id for each in SHIPPED if each.matches_name(name)} == {family}
    found = TABLE.find(name)
    assert found is not None and found.id == family


def test_other_devices_are_unknown() -> None:
    assert TABLE.find("x86_64  x2") is None and SignatureTable(()).find("NVIDIA H100") is None


@pytest.mark.parametrize(
    ("generation", "shared_kb", "cache_kb", "has_f64"),
    [
        (75, 64, 96, False),
        (80, 164, 192, True),
        (86, 100, 128, False),
        (89, 100, 128, False),
        (90, 228, 256, True),
        (100, 228, 256, True),
        (120, 100, 128, False),
    ],
)
def test_the_table_says_what_the_programming_guide_says(
    generation: int, shared_kb: int, cache_kb: int, has_f64: bool
) -> None:
    """The tables of its appendix on compute capabilities."""
    (found,) = (each for each in GENERATIONS if each.architecture_generation == generation)
    assert (found.shared_mem_per_sm_kb, found.l1_kb, found.regs_per_thread_max) == (shared_kb, cache_kb, 255)
    assert ("f64" in found.tensor_core_dtypes) is has_f64 and "f16" in found.tensor_core_dtypes


FILE: Final = """family = "acme"

[sources]
sheet = "the data sheet of the A1"

[[generations]]
id = "acme_1"
compute_capability = 90
names = ["Emulated H200"]
l1_kb = { value = 64, source = "sheet" }

[[generations.devices]]
names = ["Emulated H200"]
mem_bw_gbps = { value = 777, source = "sheet" }
"""


@pytest.mark.parametrize(
    ("old", "new", "code", "line"),
    [
        ('family = "acme"', "family = ", "E-DEVICE-PARSE", 1),
        ('family = "acme"', "", "E-DEVICE-VALUE", 1),
        ("compute_capability", "computed", "E-DEVICE-PARSE", 8),
        ("value = 64", "value = -1", "E-DEVICE-VALUE", 10),
        ("value = 64", 'value = "64"', "E-DEVICE-VALUE", 10),
        ("value = 64", f"value = {2**22}", "E-DEVICE-VALUE", 10),
        ("value = 777", "value = 7.5", "E-DEVICE-VALUE", 14),
        ("{ value = 64, ", "{ ", "E-DEVICE-PARSE", 10),
        ('64, source = "sheet"', '64, source = "memory"', "E-DEVICE-SOURCE", 10),
        ('= ["Emulated H200"]\nmem', "= []\nmem", "E-DEVICE-VALUE", 13),
        ("mem_bw_gbps", "bandwidth", "E-DEVICE-PARSE", 14),
        ("[[generations]]", '[[generations]]\nid = "acme_1"\ncompute_capability = 1\nnames = ["x"]\n[[generations]]', "E-DEVICE-DUPLICATE", 11),  # noqa: E501
        ("sheet =", "[[[[", "E-DEVICE-PARSE", 4),
    ],
)  # fmt: skip
def test_what_is_wrong_has_a_code_and_a_line(old: str, new: str, code: str, line: int) -> None:
    assert old in FILE
    reading = read_signatures(FILE.replace(old, new, 1).encode(), "acme.toml")
    assert reading.signatures == ()
    first = reading.diagnostics[0]
    assert (first.code, first.loc and first.loc.line, bool(first.fix)) == (code, line, True), first


def test_mutated_files_give_diagnostics_only() -> None:
    source, data = random.Random(5), FILE.encode()
    for _ in range(400):
        changed = bytearray(data)
        for _ in range(source.randrange(1, 4)):
            changed[source.randrange(len(changed))] = source.choice(b'"[]{}=\n, a0-\xff')
        reading = read_signatures(bytes(changed), "acme.toml")
        assert bool(reading.signatures) is not bool(reading.diagnostics)
    assert read_signatures(b"#" * (MAX_SIGNATURE_BYTES + 1), "f").diagnostics[0].code == "E-DEVICE-UNREADABLE"
    assert read_signatures(b"x = " + b"[" * 900, "f").diagnostics[0].code == "E-DEVICE-PARSE"


def test_files_of_the_user_come_first_and_planners_use_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "acme.toml").write_text(FILE)
    (tmp_path / "broken.toml").write_text("family = 3")
    (tmp_path / "copied.toml").write_text(FILE)
    settings = Settings(VYRE_DEVICE_PATH=f"{tmp_path}:{tmp_path / 'missing'}")
    table = device_signatures(settings)
    assert {each.code for each in table.diagnostics} == {
        "E-DEVICE-VALUE", "E-DEVICE-PARSE", "E-DEVICE-DUPLICATE", "E-DEVICE-UNREADABLE",
    }  # fmt: skip
    found = table.find("NVIDIA Emulated H200")
    assert found is not None and (found.id, found.mem_bw_gbps, found.l1_kb) == ("acme_1", 777, 64)
    assert dict(found.sources) == dict.fromkeys(("l1_kb", "mem_bw_gbps"), "the data sheet of the A1")

    told = cuda_machine(preset=H200).backend
    assert known_profile(told) == (told.profile, ()) and told.profile.mem_bw_gbps is not None
    silent = cuda_machine(preset=replace(H200, memory_clock_khz=0)).backend
    assert silent.profile.mem_bw_gbps is None and known_profile(silent).profile.mem_bw_gbps == 4800
    monkeypatch.setenv("VYRE_DEVICE_PATH", str(tmp_path))
    known = known_profile(silent)
    assert known.profile == replace(silent.profile, mem_bw_gbps=777)
    assert known.notes == ("mem_bw_gbps is 777, as of acme_1: the data sheet of the A1",)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "acme.toml").write_text(FILE + 'shared_mem_per_sm_kb = { value = 32, source = "sheet" }\n')
    mute = replace(silent, profile=replace(silent.profile, max_shared_memory_bytes=None))
    other = Settings(VYRE_DEVICE_PATH=str(tmp_path / "other"))
    assert known_profile(mute, other).profile.max_shared_memory_bytes == 32 << 10
    assert known_profile(mute, Settings()).profile.max_shared_memory_bytes == 48 << 10, "of the 228 KiB of an H200"


def test_a_plan_says_which_facts_are_not_of_the_driver(tmp_path: Path) -> None:
    (tmp_path / "acme.toml").write_text(FILE)
    program = square_program()
    note = "mem_bw_gbps is 777, as of acme_1: the data sheet of the A1"
    for settings, is_told in ((Settings(VYRE_DEVICE_PATH=str(tmp_path)), True), (Settings(), False)):
        catalog = cuda_machine(preset=replace(H200, memory_clock_khz=0)).catalog
        with (
            vyre.open("cuda-machine", catalog=catalog, environment=settings, cache=False) as session,
            session.resident(np.arange(4, dtype=np.uint32)) as x,
            session.resident(16) as y,
            session.sequence([vyre.Step(program, {"x": x, "y": y})] * 2, modes={"fused": True}) as sequence,
        ):
            assert (note in sequence.plan().notes) is is_told


def test_presets_of_the_emulated_device_are_named() -> None:
    machine = cuda_machine("t4")
    assert machine.backend.profile.compute_units == T4.multiprocessors
    with machine.open() as session:
        y = np.arange(4, dtype=np.uint32)
        program = vyre.Program.from_text("workgroup_size 4, 1, 1\nbuffer y @0 read_write u32[4]\nbody {\ny[gid.x] = y[gid.x] * 2u\n}")  # noqa: E501  # fmt: skip
        assert session.dispatch(program, [y])["y"].tolist() == [0, 2, 4, 6]
    with pytest.raises(InvalidConfig, match="t5"):
        cuda_machine("t5")
