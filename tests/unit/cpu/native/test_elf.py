"""The loader of objects: addresses end up where the processor looks for them, and damaged objects are refused."""

from __future__ import annotations

import ctypes
import random
import struct
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from support.llvm import NEEDS_LLVM
from vyre.adapters.cpu.native.compilation import Effort, compile_object
from vyre.adapters.cpu.native.elf import exported_names, load_image
from vyre.adapters.cpu.native.features import parse_features
from vyre.adapters.cpu.native.linked_form import MOST_BYTES, UnusableObject
from vyre.adapters.cpu.native.memory import MAPPABLE

pytestmark = [
    NEEDS_LLVM,
    pytest.mark.skipif(not MAPPABLE, reason="this system maps memory in another way"),
]

X86: Final = parse_features("x86_64+sse3")
ARM: Final = parse_features("aarch64+fp-armv8+neon")
TARGETS: Final = {"x86_64": X86, "aarch64": ARM}
OUTSIDE: Final = {"outside": 0x7123_4567_89A0, "variable": 0x7765_4321_00F0, "memcpy": 0x7123_0000_0010}
"""Addresses further from loaded code than a call reaches."""

TEXT: Final = """
@table = internal constant [4 x double] [double 1.0, double 2.0, double 4.0, double 8.0]
@words = internal constant <4 x i32> <i32 11, i32 12, i32 13, i32 14>
@variable = external global i32
@own = global i32 77
@zeros = internal global [100 x i32] zeroinitializer
@pointer = internal global ptr @own
@tables = internal constant [2 x ptr] [ptr @table, ptr @words]
declare i32 @outside(i32)

define double @looked_up(i64 %i) nounwind {
  %at = getelementptr [4 x double], ptr @table, i64 0, i64 %i
  %value = load double, ptr %at
  ret double %value
}
define <4 x i32> @vector() nounwind {
  %value = load <4 x i32>, ptr @words
  ret <4 x i32> %value
}
define i32 @called(i32 %x) nounwind {
  %a = call i32 @outside(i32 %x)
  %b = call i32 @inner(i32 %a)
  ret i32 %b
}
define i32 @inner(i32 %x) noinline nounwind {
  %value = load volatile i32, ptr @variable
  %sum = add i32 %x, %value
  ret i32 %sum
}
define ptr @stored() nounwind {
  %at = load volatile ptr, ptr @pointer
  ret ptr %at
}
define i32 @zero(i64 %i) nounwind {
  %at = getelementptr [100 x i32], ptr @zeros, i64 0, i64 %i
  %value = load volatile i32, ptr %at
  %other = load volatile ptr, ptr @tables
  ret i32 %value
}
define i32 @chosen(i32 %i) nounwind {
  switch i32 %i, label %none [ i32 0, label %a
    i32 1, label %b
    i32 2, label %c
    i32 3, label %d
    i32 4, label %e ]
a:
  %ra = call i32 @inner(i32 3)
  ret i32 %ra
b:
  %rb = call i32 @outside(i32 5)
  ret i32 %rb
c:
  %rc = mul i32 %i, %i
  ret i32 %rc
d:
  %rd = call i32 @outside(i32 9)
  ret i32 %rd
e:
  %re = call i32 @inner(i32 11)
  ret i32 %re
none:
  ret i32 0
}
"""
NAMES: Final = ("called", "chosen", "inner", "looked_up", "own", "stored", "vector", "zero")


@pytest.fixture(scope="module")
def objects() -> dict[str, bytes]:
    return {arch: compile_object(TEXT, features, Effort.LIGHT) for arch, features in TARGETS.items()}


@pytest.mark.parametrize("arch", TARGETS)
def test_the_global_names_are_exported(arch: str, objects: dict[str, bytes]) -> None:
    assert exported_names(objects[arch], arch) == NAMES
    image = load_image(objects[arch], arch, OUTSIDE.get)
    assert tuple(sorted(image.addresses)) == NAMES
    image.pages.close()


@pytest.mark.parametrize("arch", TARGETS)
def test_variables_hold_what_they_were_initialised_with(arch: str, objects: dict[str, bytes]) -> None:
    image = load_image(objects[arch], arch, OUTSIDE.get)
    assert ctypes.c_int32.from_address(image.addresses["own"]).value == 77
    content = ctypes.string_at(image.pages.address, image.pages.nbytes)
    assert struct.pack("<4d", 1, 2, 4, 8) in content
    assert struct.pack("<Q", image.addresses["own"]) in content
    assert struct.pack("<Q", OUTSIDE["outside"]) in content
    image.pages.close()


# ---------------------------------------------------------------- AArch64, read back from the instructions
def signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> bits - 1 else value


def references(code: bytes, at: int) -> Iterator[tuple[str, int]]:
    """The addresses that a stretch of AArch64 code at ``at`` refers to: those of calls, and those of ADRP with the
    instruction that adds the low bits.
    """
    pages: dict[int, int] = {}
    for offset in range(0, len(code), 4):
        word, here = int.from_bytes(code[offset : offset + 4], "little"), at + offset
        if word >> 26 in (0b100101, 0b000101):  # BL, B
            yield "branch", here + 4 * signed(word & 0x3FFFFFF, 26)
        elif word & 0x9F000000 == 0x90000000:  # ADRP
            distance = signed((word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3, 21) << 12
            pages[word & 31] = (here & ~0xFFF) + distance
        elif word >> 24 == 0x91 and word >> 5 & 31 in pages:  # ADD, immediate
            yield "address", pages[word >> 5 & 31] + (word >> 10 & 0xFFF)
        elif word & 0x3B000000 == 0x39000000 and word >> 5 & 31 in pages:  # LDR, STR with an unsigned offset
            scale = 4 if word >> 26 & 1 and word >> 23 & 1 else word >> 30
            yield "access", pages[word >> 5 & 31] + ((word >> 10 & 0xFFF) << scale)


def test_aarch64_code_refers_to_what_it_names(objects: dict[str, bytes]) -> None:
    image = load_image(objects["aarch64"], "aarch64", OUTSIDE.get)
    base, at = image.pages.address, image.addresses

    def of(name: str) -> dict[str, list[int]]:
        ends = [address for address in at.values() if address > at[name]]
        code = ctypes.string_at(at[name], min([*ends, at[name] + 64]) - at[name])
        found: dict[str, list[int]] = {}
        for kind, address in references(code, at[name]):
            assert base <= address < base + image.pages.nbytes
            found.setdefault(kind, []).append(address)
        return found

    table = of("looked_up")["address"][0]
    assert struct.unpack("<4d", ctypes.string_at(table, 32)) == (1, 2, 4, 8)
    words = of("vector")["access"][0]
    assert words % 16 == 0
    assert struct.unpack("<4i", ctypes.string_at(words, 16)) == (11, 12, 13, 14)
    pointer = of("stored")["access"][0]
    assert ctypes.c_uint64.from_address(pointer).value == at["own"]
    slot = of("inner")["access"][0]
    assert ctypes.c_uint64.from_address(slot).value == OUTSIDE["variable"]
    stub, inner = of("called")["branch"]
    assert inner == at["inner"]
    load, jump, target = struct.unpack("<IIQ", ctypes.string_at(stub, 16))
    assert load == 0x58000000 | 2 << 5 | 16  # LDR X16, two instructions further
    assert jump == 0xD61F0000 | 16 << 5  # BR X16
    assert target == OUTSIDE["outside"]
    image.pages.close()


# ---------------------------------------------------------------- damage
def refused(data: bytes, arch: str = "x86_64", resolve: Callable[[str], int | None] = OUTSIDE.get) -> bool:
    """Whether an object is refused with the typed error; any other error passes through."""
    try:
        image = load_image(data, arch, resolve)
    except UnusableObject as error:
        assert "its object cannot be loaded: " in str(error) and "Fix: " in str(error)
        return True
    image.pages.close()
    return False


@pytest.mark.parametrize("arch", TARGETS)
def test_flipped_bits_are_refused_or_harmless(arch: str, objects: dict[str, bytes]) -> None:
    data = objects[arch]
    choose = random.Random(15)
    tables = int.from_bytes(data[40:48], "little")
    places = [*range(64), *range(tables, len(data)), *choose.sample(range(64, tables), min(600, tables - 64))]
    refusals = 0
    for place in places:
        damaged = bytearray(data)
        damaged[place] ^= 1 << choose.randrange(8)
        refusals += refused(bytes(damaged), arch)
    assert 100 < refusals < len(places)


@pytest.mark.parametrize("arch", TARGETS)
def test_overwritten_words_are_refused_or_harmless(arch: str, objects: dict[str, bytes]) -> None:
    data = objects[arch]
    choose = random.Random(51)
    refusals = 0
    for _ in range(800):
        damaged = bytearray(data)
        for _ in range(choose.choice((1, 1, 2, 8))):
            width = choose.choice((2, 4, 8))
            place = choose.randrange(0, len(data) - width) // width * width
            value = choose.choice(
                (0, 1, (1 << 8 * width) - 1, 1 << 8 * width - 1, choose.getrandbits(8 * width), 0x1000)
            )
            damaged[place : place + width] = value.to_bytes(width, "little")
        refusals += refused(bytes(damaged), arch)
    assert refusals > 100


@pytest.mark.parametrize("arch", TARGETS)
def test_a_truncated_object_is_refused(arch: str, objects: dict[str, bytes]) -> None:
    data = objects[arch]
    assert all(refused(data[:length], arch) for length in range(0, len(data), 7))


def test_an_object_for_another_architecture_is_refused(objects: dict[str, bytes]) -> None:
    with pytest.raises(UnusableObject, match="it was made for aarch64, not for x86_64"):
        load_image(objects["aarch64"], "x86_64", OUTSIDE.get)


@pytest.mark.parametrize("missing", ["outside", "variable"])
def test_what_an_object_lacks_is_named(missing: str, objects: dict[str, bytes]) -> None:
    offered = {name: address for name, address in OUTSIDE.items() if name != missing}
    with pytest.raises(UnusableObject, match=f"it needs '{missing}', which neither"):
        load_image(objects["x86_64"], "x86_64", offered.get)


def test_variables_of_threads_are_refused() -> None:
    text = "@t = thread_local global i32 5\ndefine ptr @f() nounwind {\n  ret ptr @t\n}\n"
    with pytest.raises(UnusableObject, match=r"variables of threads|relocations of type|is of kind"):
        load_image(compile_object(text, X86, Effort.LIGHT, system="linux"), "x86_64", {"__tls_get_addr": 1}.get)


def test_an_object_that_asks_for_too_much_memory_is_refused() -> None:
    text = f"@large = global [{MOST_BYTES} x i8] zeroinitializer\ndefine void @f() nounwind {{\n  ret void\n}}\n"
    with pytest.raises(UnusableObject, match=r"section '\.bss' has|it asks for"):
        load_image(compile_object(text, X86, Effort.LIGHT), "x86_64", OUTSIDE.get)


def test_an_object_without_contents_is_refused() -> None:
    with pytest.raises(UnusableObject, match="it asks for 0 bytes"):
        load_image(compile_object("", X86, Effort.LIGHT), "x86_64", OUTSIDE.get)


def test_nothing_is_mapped_for_an_object_that_is_refused(objects: dict[str, bytes]) -> None:
    def maps() -> int:
        with open("/proc/self/maps", encoding="utf-8") as lines:  # noqa: PTH123
            return sum(1 for _ in lines)

    try:
        maps()
    except OSError:
        pytest.skip("this system lists no mappings")
    refused(objects["x86_64"], resolve=lambda name: None)
    before = maps()
    for _ in range(50):
        assert refused(objects["x86_64"], resolve=lambda name: None)
    assert maps() <= before + 5  # the interpreter maps memory too
