"""The table of known devices: ids of their own, and each name belongs to the right family."""

from __future__ import annotations

import pytest

from vyre.domain.device_signatures import SIGNATURES, signature_of


def test_every_signature_has_an_id_and_a_generation_of_its_own() -> None:
    assert len({signature.id for signature in SIGNATURES}) == len(SIGNATURES)
    assert len({signature.architecture_generation for signature in SIGNATURES}) == len(SIGNATURES)
    for signature in SIGNATURES:
        assert signature.id.endswith(f"_{signature.architecture_generation}")


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
    found = signature_of(name)
    assert found is not None and found.id == family


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
    """Tables 31, 32 and 33 of its appendix on compute capabilities."""
    (found,) = (each for each in SIGNATURES if each.architecture_generation == generation)
    assert (found.shared_mem_per_sm_kb, found.l1_kb, found.regs_per_thread_max) == (shared_kb, cache_kb, 255)
    assert ("f64" in found.tensor_core_dtypes) is has_f64 and "f16" in found.tensor_core_dtypes


def test_other_devices_are_unknown() -> None:
    assert signature_of("x86_64  x2") is None
    assert signature_of("NVIDIA H100", ()) is None
