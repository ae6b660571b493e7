"""Objects that were relocated when they were compiled: they become what the loader of objects makes of them."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable
from struct import Struct
from typing import Final

import pytest

from support.llvm import NEEDS_LLVM
from unit.cpu.native.test_elf import NAMES, OUTSIDE, TEXT, X86
from vyre.adapters.cpu.native.compilation import Effort, compile_object
from vyre.adapters.cpu.native.elf import link_image, load_image
from vyre.adapters.cpu.native.linked_form import Image, LinkedImage, UnusableObject, Word, encode_linked, load_linked
from vyre.adapters.cpu.native.memory import MAPPABLE, PAGE_BYTES

pytestmark = [
    NEEDS_LLVM,
    pytest.mark.skipif(not MAPPABLE, reason="this system maps memory in another way"),
]

WEAK: Final = """
declare extern_weak i32 @absent(i32)
define i1 @is_there() nounwind {
  %found = icmp ne ptr @absent, null
  ret i1 %found
}
"""
_ADDRESS: Final = Struct("<Q")


def image_of(text: str) -> LinkedImage:
    found = link_image(compile_object(text, X86, Effort.LIGHT), "x86_64")
    assert found is not None
    return found


@pytest.fixture(scope="module")
def data() -> bytes:
    return encode_linked(image_of(TEXT))


def content(image: Image) -> tuple[bytes, dict[str, int]]:
    """Returns what an image has in memory, with addresses in it replaced by offsets, and the offsets of its names."""
    base, nbytes = image.pages.address, image.pages.nbytes
    found = bytearray(ctypes.string_at(base, nbytes))
    for at in range(0, nbytes, _ADDRESS.size):
        (word,) = _ADDRESS.unpack_from(found, at)
        if base <= word < base + nbytes:
            _ADDRESS.pack_into(found, at, word - base)
    offsets = {name: address - base for name, address in image.addresses.items()}
    image.pages.close()
    return bytes(found), offsets


def test_the_memory_is_that_of_the_loaded_object(data: bytes) -> None:
    wanted = content(load_image(compile_object(TEXT, X86, Effort.LIGHT), "x86_64", OUTSIDE.get))
    assert content(load_linked(data, OUTSIDE.get)) == wanted
    assert sorted(wanted[1]) == list(NAMES)


def test_words_that_depend_on_the_process_are_left_open() -> None:
    image = image_of(TEXT)
    assert {word.name for word in image.words} >= {"outside", "variable", ""}
    own = [word.value for word in image.words if not word.name]
    assert image.exports["own"] in own


@pytest.mark.parametrize("missing", ["outside", "variable"])
def test_what_it_lacks_is_named(missing: str, data: bytes) -> None:
    offered = {name: address for name, address in OUTSIDE.items() if name != missing}
    with pytest.raises(UnusableObject, match=f"it needs '{missing}', which neither"):
        load_linked(data, offered.get)


@pytest.mark.parametrize(("offered", "wanted"), [({}, False), ({"absent": 0x7123_0000_0000}, True)])
def test_what_is_optional_may_be_missing(offered: dict[str, int], wanted: bool) -> None:
    image = load_linked(encode_linked(image_of(WEAK)), offered.get)
    assert ctypes.CFUNCTYPE(ctypes.c_bool)(image.addresses["is_there"])() is wanted
    image.pages.close()


def test_other_objects_have_no_such_form() -> None:
    arm = compile_object(TEXT, X86, Effort.LIGHT)
    assert link_image(arm, "aarch64") is None


# ---------------------------------------------------------------- damage
def refused(data: bytes) -> bool:
    """Whether code is refused with the typed error; any other error passes through."""
    try:
        image = load_linked(data, OUTSIDE.get)
    except UnusableObject:
        return True
    image.pages.close()
    return False


def test_truncated_and_extended_code_is_refused(data: bytes) -> None:
    assert all(refused(data[:length]) for length in range(len(data)))
    assert refused(data + b"\0")


def test_flipped_bits_are_refused_or_harmless(data: bytes) -> None:
    choose = random.Random(15)
    refusals = 0
    for place in range(16, len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 1 << choose.randrange(8)
        refusals += refused(bytes(damaged))
    assert 100 < refusals < len(data)


def with_word(image: LinkedImage, word: Word) -> LinkedImage:
    return image._replace(words=(*image.words, word))


@pytest.mark.parametrize(
    "change",
    [
        lambda image: with_word(image, Word(len(image.contents) - 7, 0, "")),
        lambda image: with_word(image, Word(1 << 31, 0, "")),
        lambda image: image._replace(exports={"far": len(image.contents) + 1}),
        lambda image: image._replace(code=image.code + 1),
        lambda image: image._replace(code=image.constants + PAGE_BYTES),
    ],
    ids=["word across the end", "word beyond the end", "name beyond the end", "part of a page", "overlap"],
)
def test_nothing_leaves_the_memory(change: Callable[[LinkedImage], LinkedImage]) -> None:
    assert refused(encode_linked(change(image_of(TEXT))))
