"""The relocation types that LLVM emits for small code: how addresses are written into fields of machine code.

The names and formulas are those of the processor supplements of the ELF standard.  ``S`` is the address of the symbol,
``A`` the addend and ``P`` the address of the field.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple


class OutOfReach(Exception):
    """A relocation has an unknown type, leaves its section, or its value does not fit its field."""


class Place(NamedTuple):
    """A field: ``at`` is its offset in ``memory``, which will lie at address ``base``; ``room`` is the number of bytes
    from it to the end of its section, zero or less beyond it.
    """

    memory: bytearray
    at: int
    base: int
    room: int

    @property
    def address(self) -> int:
        """Returns the address of the field."""
        return self.base + self.at

    def read(self) -> int:
        """Returns the 32-bit word at the field.  Raises ``OutOfReach`` if it leaves the section."""
        if self.room < 4 or self.at % 4:
            raise OutOfReach("the instruction leaves its section, or is not aligned")
        return int.from_bytes(self.memory[self.at : self.at + 4], "little")

    def write(self, value: int, nbytes: int) -> None:
        """Stores the low ``nbytes`` bytes of ``value``.  Raises ``OutOfReach`` if they leave the section."""
        if self.room < nbytes:
            raise OutOfReach("the field leaves its section")
        self.memory[self.at : self.at + nbytes] = (value % (1 << 8 * nbytes)).to_bytes(nbytes, "little")


Relocation = Callable[[Place, int, int], None]
"""Fills a field from S and A."""


def _signed(value: int, bits: int) -> int:
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise OutOfReach(f"the distance {value} does not fit {bits} bits")
    return value


def _number(nbytes: int, lowest: int | None = None, end: int = 0, *, relative: bool = False) -> Relocation:
    """Returns S + A, or S + A - P if ``relative``; unless ``lowest`` is None it must be that at least, and below
    ``end``.
    """

    def fill(place: Place, symbol: int, addend: int) -> None:
        value = symbol + addend - (place.address if relative else 0)
        if lowest is not None and not lowest <= value < end:
            raise OutOfReach(f"the {'distance' if relative else 'value'} {value} does not fit {8 * nbytes} bits")
        place.write(value, nbytes)

    return fill


# ---------------------------------------------------------------- both
_absolute_64: Final = _number(8)
_relative_64: Final = _number(8, relative=True)
_relative_32: Final = _number(4, -(1 << 31), 1 << 31, relative=True)


# ---------------------------------------------------------------- x86-64
_X86_64: Final[dict[int, Relocation]] = {
    1: _absolute_64,  # R_X86_64_64
    2: _relative_32,  # R_X86_64_PC32
    4: _relative_32,  # R_X86_64_PLT32
    9: _relative_32,  # R_X86_64_GOTPCREL
    10: _number(4, 0, 1 << 32),  # R_X86_64_32
    11: _number(4, -(1 << 31), 1 << 31),  # R_X86_64_32S
    24: _relative_64,  # R_X86_64_PC64
    41: _relative_32,  # R_X86_64_GOTPCRELX
    42: _relative_32,  # R_X86_64_REX_GOTPCRELX
}


DISTANCES_X86_64: Final = frozenset(kind for kind, fill in _X86_64.items() if fill is _relative_32)
"""The types of x86-64 whose field takes S + A - P in 32 bits, with a sign."""


def relocate_x86_64(place: Place, kind: int, symbol: int, addend: int) -> None:
    """Fills a field as the relocation type ``kind`` of x86-64 says.  Raises ``OutOfReach``."""
    _known(_X86_64, kind)(place, symbol, addend)


# ---------------------------------------------------------------- AArch64
def _page(address: int) -> int:
    return address & ~0xFFF


def _branch(first: int, bits: int) -> Relocation:
    """Returns a distance in instructions, in ``bits`` bits from bit ``first``."""

    def fill(place: Place, symbol: int, addend: int) -> None:
        distance = _signed(symbol + addend - place.address, bits + 2)
        if distance % 4:
            raise OutOfReach(f"the distance {distance} is no multiple of an instruction's size")
        mask = (1 << bits) - 1
        place.write(place.read() & ~(mask << first) | (distance >> 2 & mask) << first, 4)

    return fill


def _split_21(place: Place, value: int) -> None:
    """Returns the immediate of ADR and ADRP: two low bits at 29, nineteen high bits at 5."""
    kept = place.read() & ~(0x3 << 29 | 0x7FFFF << 5)
    place.write(kept | (value & 0x3) << 29 | (value >> 2 & 0x7FFFF) << 5, 4)


def _page_address(place: Place, symbol: int, addend: int) -> None:
    _split_21(place, _signed(_page(symbol + addend) - _page(place.address), 33) >> 12)


def _low_12(scale: int) -> Relocation:
    """Returns the low twelve bits of an address, in units of ``1 << scale`` bytes, from bit 10."""

    def fill(place: Place, symbol: int, addend: int) -> None:
        low = symbol + addend & 0xFFF
        if low & (1 << scale) - 1:
            raise OutOfReach(f"the address {symbol + addend:#x} is not aligned to {1 << scale} bytes")
        place.write(place.read() & ~(0xFFF << 10) | low >> scale << 10, 4)

    return fill


_AARCH64: Final[dict[int, Relocation]] = {
    257: _absolute_64,  # R_AARCH64_ABS64
    258: _number(4, -(1 << 31), 1 << 32),  # R_AARCH64_ABS32
    260: _relative_64,  # R_AARCH64_PREL64
    261: _number(4, -(1 << 31), 1 << 32, relative=True),  # R_AARCH64_PREL32
    273: _branch(5, 19),  # R_AARCH64_LD_PREL_LO19
    274: lambda place, s, a: _split_21(place, _signed(s + a - place.address, 21)),  # R_AARCH64_ADR_PREL_LO21
    275: _page_address,  # R_AARCH64_ADR_PREL_PG_HI21
    277: _low_12(0),  # R_AARCH64_ADD_ABS_LO12_NC
    278: _low_12(0),  # R_AARCH64_LDST8_ABS_LO12_NC
    279: _branch(5, 14),  # R_AARCH64_TSTBR14
    280: _branch(5, 19),  # R_AARCH64_CONDBR19
    282: _branch(0, 26),  # R_AARCH64_JUMP26
    283: _branch(0, 26),  # R_AARCH64_CALL26
    284: _low_12(1),  # R_AARCH64_LDST16_ABS_LO12_NC
    285: _low_12(2),  # R_AARCH64_LDST32_ABS_LO12_NC
    286: _low_12(3),  # R_AARCH64_LDST64_ABS_LO12_NC
    299: _low_12(4),  # R_AARCH64_LDST128_ABS_LO12_NC
    311: _page_address,  # R_AARCH64_ADR_GOT_PAGE
    312: _low_12(3),  # R_AARCH64_LD64_GOT_LO12_NC
    314: _relative_32,  # R_AARCH64_PLT32
}


def relocate_aarch64(place: Place, kind: int, symbol: int, addend: int) -> None:
    """Fills a field as the relocation type ``kind`` of AArch64 says.  Raises ``OutOfReach``."""
    _known(_AARCH64, kind)(place, symbol, addend)


def _known(table: dict[int, Relocation], kind: int) -> Relocation:
    try:
        return table[kind]
    except KeyError:
        raise OutOfReach(f"relocations of type {kind} are not supported") from None
