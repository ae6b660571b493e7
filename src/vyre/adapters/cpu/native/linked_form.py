"""Objects that were laid out and relocated when they were compiled, as bytes that take little work to load.

Integers are little-endian; a text is its length in bytes and its UTF-8.

    bytes   content
    16      magic, with the architecture and the version of this form
    4 x 7   where code, constants and data end in memory, and the bytes of the three parts that are stored; the number
            of exported names
    4       the number of words
    ...     for each export its offset in memory (4 bytes) and its name
    ...     for each word: offset in memory (4), value (8), whether it is optional (1), name
    ...     code, constants and data, without the zeros at their ends

A store verifies the bytes by their digest.  The loader checks all the same that no offset leaves the memory.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import gt
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from vyre.adapters.cpu.native.memory import PAGE_BYTES, Pages, Protection
from vyre.domain.errors import KernelCompileFailed

Resolver = Callable[[str], int | None]
"""Returns the address of a function or variable outside of the object by its name, or None."""

MOST_BYTES: Final = 1 << 26
"""The largest object, and the most memory that one may ask for, in bytes."""

MAGIC: Final = b"vyre x86-64 / 1\0"
_HEAD: Final = Struct("<16s8I")
_EXPORT: Final = Struct("<II")
_WORD: Final = Struct("<Iq?I")
_ADDRESS: Final = Struct("<Q")
_ADDRESSES: Final = 1 << 64


class UnusableObject(KernelCompileFailed):
    """An object is damaged, was made for another machine, or needs what this loader does not offer."""

    default_fix = "compile the kernel again; clear the stored code if it was read from there (`vyre cache clear`)."

    def __init__(self, reason: str, *, backend: str = "cpu") -> None:
        super().__init__(backend=backend, compiler_log=f"its object cannot be loaded: {reason}")


class Image(NamedTuple):
    """A loaded object: its pages, and the addresses of its global functions and variables by their names."""

    pages: Pages
    addresses: dict[str, int]


class Word(NamedTuple):
    """A 64-bit address at offset ``at`` of an image: ``value`` bytes behind the function or variable ``name``, or
    behind the beginning of the image for an empty name.  What is ``optional`` may be missing, and is then at address 0.
    """

    at: int
    value: int
    name: str
    optional: bool = False


class LinkedImage(NamedTuple):
    """An object laid out in memory and relocated, but for some ``words``.

    ``code`` and ``constants`` are where these parts end; data follow.  ``exports`` are offsets in ``contents`` by name.
    """

    code: int
    constants: int
    contents: bytearray
    words: tuple[Word, ...]
    exports: dict[str, int]


def encode_linked(image: LinkedImage) -> bytes:
    """Returns the form of an image."""
    code, constants, contents, words, exports = image
    parts = [bytes(contents[a:b]).rstrip(b"\0") for a, b in ((0, code), (code, constants), (constants, len(contents)))]
    sizes = map(len, parts)
    chunks = [_HEAD.pack(MAGIC, code, constants, len(contents), *sizes, len(exports), len(words))]
    for name, offset in exports.items():
        text = name.encode()
        chunks += (_EXPORT.pack(offset, len(text)), text)
    for offset, value, name, optional in words:
        text = name.encode()
        chunks += (_WORD.pack(offset, value, optional, len(text)), text)
    return b"".join((*chunks, *parts))


def load_linked(data: bytes, resolve: Resolver) -> Image:
    """Returns an image in memory that is ready to run.

    Raises ``UnusableObject``, ``DeviceOutOfMemory``, and ``DispatchFailed`` if the system allows no executable pages.
    """
    try:
        _, code, constants, end, *sizes, export_count, word_count = _HEAD.unpack_from(data)
        if not 0 <= code <= constants <= end <= MOST_BYTES or not end or (code | constants | end) % PAGE_BYTES:
            raise UnusableObject("its parts are no pages")
        position, exports = _HEAD.size, {}
        for _ in range(export_count):
            offset, length = _EXPORT.unpack_from(data, position)
            position += _EXPORT.size + length
            exports[data[position - length : position].decode()] = offset
            if offset > end:
                raise UnusableObject("a function lies beyond its end")
        words = []
        for _ in range(word_count):
            place, value, optional, length = _WORD.unpack_from(data, position)
            position += _WORD.size + length
            words.append(Word(place, value, data[position - length : position].decode(), optional))
    except (StructError, UnicodeDecodeError) as error:
        raise UnusableObject(f"a record leaves the object ({error})") from None
    room = (code, constants - code, end - constants)
    if position + sum(sizes) != len(data) or any(map(gt, sizes, room)):
        raise UnusableObject("its parts have other sizes")
    addresses = [(word.at, _address(word, resolve)) for word in words]
    pages = Pages(end)
    try:
        for start, size in zip((0, code, constants), sizes, strict=True):
            if size:
                pages.write(start, data[position : position + size])
            position += size
        for (place, address), word in zip(addresses, words, strict=True):
            base = 0 if word.name else pages.address
            pages.write(place, _ADDRESS.pack((base + address) % _ADDRESSES))
        pages.protect(0, code, Protection.EXECUTE)
        pages.protect(code, constants - code, Protection.READ)
    except ValueError as error:
        pages.close()
        raise UnusableObject(str(error)) from None
    except BaseException:
        pages.close()
        raise
    return Image(pages, {name: pages.address + offset for name, offset in exports.items()})


def _address(word: Word, resolve: Resolver) -> int:
    """Returns the address for a word, or its distance from the beginning of the image if it has no name."""
    if not word.name:
        return word.value
    address = resolve(word.name)
    if address is None and not word.optional:
        raise UnusableObject(f"it needs {word.name!r}, which neither the C library nor vyre offers")
    return (address or 0) + word.value
