"""The machine code of the gallery: it assembles for both architectures, and no FMA in it is the compiler's own."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

import pytest

from support.llvm import NEEDS_LLVM
from vyre.adapters.cpu.llvm.emit import emit
from vyre.adapters.cpu.llvm.options import EmitOptions
from vyre.adapters.cpu.native.compilation import Effort, assembly, compile_object
from vyre.adapters.cpu.native.elf import load_image
from vyre.adapters.cpu.native.features import CpuFeatures, parse_features
from vyre.adapters.cpu.native.loading import library_function
from vyre.adapters.cpu.native.memory import MAPPABLE
from vyre.gallery.registry import examples

pytestmark = NEEDS_LLVM

AVX512: Final = parse_features(
    "x86_64+avx+avx2+avx512bw+avx512dq+avx512f+avx512vl+bmi+bmi2+f16c+fma+lzcnt+popcnt+sse4.2"
)
NEON: Final = parse_features("aarch64+fp-armv8+neon")
LANES: Final = {AVX512: 16, NEON: 4}
FMA: Final = re.compile(r"^\s+(vfn?m(?:add|sub)\w*|fn?m(?:add|sub)|fml[as])\b", re.MULTILINE)
GALLERY: Final = examples()


@cache
def text_of(name: str, lanes: int) -> str:
    return emit(GALLERY[name].program(), EmitOptions(lanes=lanes)).text


@pytest.mark.parametrize("name", GALLERY)
@pytest.mark.parametrize(
    ("features", "effort"),
    [(AVX512, Effort.FULL), (AVX512, Effort.QUICK), (NEON, Effort.LIGHT), (NEON, Effort.QUICK)],
    ids=["avx512 full", "avx512 quick", "neon light", "neon quick"],
)
def test_no_fma_is_formed_that_the_program_did_not_ask_for(name: str, features: CpuFeatures, effort: Effort) -> None:
    text = text_of(name, LANES[features])
    found = FMA.findall(assembly(text, features, effort))
    assert bool(found) == ("@llvm.fma." in text)


@pytest.mark.skipif(not MAPPABLE, reason="this system maps memory in another way")
@pytest.mark.parametrize("name", GALLERY)
def test_aarch64_objects_are_complete_and_relocate(name: str) -> None:
    program = emit(GALLERY[name].program(), EmitOptions(lanes=LANES[NEON]))
    image = load_image(compile_object(program.text, NEON, Effort.LIGHT, system="linux"), "aarch64", library_function)
    assert {kernel.entry for kernel in program.kernels} <= image.addresses.keys()
    image.pages.close()
