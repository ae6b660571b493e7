"""Targets and versions of PTX, and what its assembler is not trusted with."""

from __future__ import annotations

import pytest

from gpu_runs.check.reduced_ptx import reduced_ptx
from vyre.adapters.cuda.decisions.ptx_target import (
    BASE_VERSIONS,
    Feature,
    PtxTarget,
    TargetInputs,
    check_driver,
    highest_version,
    select_target,
    sm_number,
)
from vyre.adapters.cuda.decisions.ptxas_hazard_table import ALL_FENCES, Fence
from vyre.adapters.cuda.decisions.ptxas_hazards import AssemblerInputs, fences_needed
from vyre.domain.errors import BackendUnavailable, InvalidConfig, UnsupportedFeature

KNOWN = "sm_75, sm_80, sm_86, sm_87, sm_88, sm_89, sm_90, sm_100, sm_103, sm_110, sm_120, sm_121"


@pytest.mark.parametrize(
    ("device", "features", "version", "target"),
    [
        (75, (), "6.3", "sm_75"),
        (79, (), "6.3", "sm_75"),
        (90, (), "7.8", "sm_90"),
        (90, (Feature.REDUCE,), "7.8", "sm_90"),
        (90, (Feature.LARGE_PARAMETERS,), "8.1", "sm_90"),
        (80, (Feature.CACHE_HINTS, Feature.REDUCE), "7.4", "sm_80"),
        (80, (Feature.REDUCE,), "7.0", "sm_80"),
        (100, (Feature.WIDE_256,), "8.8", "sm_100"),
        (999, (), "8.8", "sm_121"),
    ],
)
def test_targets(device: int, features: tuple[Feature, ...], version: str, target: str) -> None:
    found = select_target(TargetInputs(device, frozenset(features)))
    assert (found.version_text, found.text) == (version, target)


@pytest.mark.parametrize("number", BASE_VERSIONS)
def test_names_of_targets(number: int) -> None:
    assert sm_number(PtxTarget((9, 0), number).text) == number


@pytest.mark.parametrize("name", ["sm_91", "sm_9", "sm_0090", "90", "SM_90", "sm_90a", "xsm_90"])
def test_unknown_names(name: str) -> None:
    with pytest.raises(InvalidConfig) as error:
        sm_number(name)
    assert str(error.value) == f"unknown target '{name}'. Fix: use one of {KNOWN}."


def test_devices_below_the_oldest_target() -> None:
    with pytest.raises(InvalidConfig) as error:
        select_target(TargetInputs(74))
    assert str(error.value) == f"unknown target 'sm_74'. Fix: use one of {KNOWN}."


def test_features_of_later_targets() -> None:
    with pytest.raises(UnsupportedFeature) as error:
        select_target(TargetInputs(90, frozenset({Feature.WIDE_256})))
    assert (error.value.feature, error.value.backend) == ("32-byte loads and stores", "sm_90")
    assert error.value.fix == "use a device of sm_100 or later."


@pytest.mark.parametrize(
    ("driver", "version"),
    [(99_000, (9, 0)), (13_000, (9, 0)), (12_999, (8, 8)), (12_090, (8, 8)), (10_000, (6, 3)), (9_999, (6, 0))],
)
def test_drivers(driver: int, version: tuple[int, int]) -> None:
    assert highest_version(driver) == version
    check_driver(PtxTarget(version, 90), driver)


@pytest.mark.parametrize(
    ("version", "driver", "said"),
    [
        (
            (8, 8),
            12_080,
            "the driver of CUDA 12.8 does not read PTX 8.8, which sm_90 needs."
            " Fix: update the driver to CUDA 12.9 or later.",
        ),
        (
            (8, 8),
            12_000,
            "the driver of CUDA 12.0 does not read PTX 8.8, which sm_90 needs."
            " Fix: update the driver to CUDA 12.9 or later.",
        ),
        (
            (9, 0),
            12_090,
            "the driver of CUDA 12.9 does not read PTX 9.0, which sm_90 needs."
            " Fix: update the driver to CUDA 13.0 or later.",
        ),
        (
            (7, 3),
            11_019,
            "the driver of CUDA 11.1 does not read PTX 7.3, which sm_90 needs."
            " Fix: update the driver to CUDA 11.4 or later.",
        ),
    ],
)
def test_drivers_that_are_too_old(version: tuple[int, int], driver: int, said: str) -> None:
    with pytest.raises(BackendUnavailable) as error:
        check_driver(PtxTarget(version, 90), driver)
    assert str(error.value) == said


@pytest.mark.parametrize(
    ("target", "assembler", "expected"),
    [
        (90, None, ALL_FENCES),
        (90, (13, 0), ALL_FENCES),
        (90, (13, 5), frozenset({Fence.ROTATES, Fence.LOOPS, Fence.PRODUCTS})),
        (130, (13, 5), ALL_FENCES),
    ],
)
def test_fences(target: int, assembler: tuple[int, int] | None, expected: frozenset[Fence]) -> None:
    assert fences_needed(AssemblerInputs(target, assembler)) == expected


def test_a_module_around_a_body() -> None:
    assert reduced_ptx("entry", "\nadd.u32 %r9, %r0, %r1;\nbra $END;\n", "8.0", "sm_90") == (
        ".version 8.0\n"
        ".target sm_90\n"
        ".address_size 64\n"
        ".visible .entry entry(.param .u64 out, .param .u32 n, .param .u32 zero)\n"
        "{\n"
        "\t.reg .pred %p<4>;\n"
        "\t.reg .b32 %r<10>;\n"
        "\t.reg .b64 %rd<4>;\n"
        "\tld.param.u64 %rd0, [out];\n"
        "\tcvta.to.global.u64 %rd0, %rd0;\n"
        "\tld.param.u32 %r0, [n];\n"
        "\tld.param.u32 %r1, [zero];\n"
        "\tmov.u32 %r2, %tid.x;\n"
        "\tadd.u32 %r9, %r0, %r1;\n"
        "\tbra $END;\n"
        "\tst.global.u32 [%rd0], %r9;\n"
        "$END:\n"
        "\tret;\n"
        "}\n"
    )
