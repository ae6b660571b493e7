"""A loader of relocatable ELF objects for x86-64 and AArch64, which needs no compiler and no linker.

An object is read, laid out in one mapping of three parts (code, constants, data), relocated in a buffer, copied to
fresh pages and protected: code may be executed and not written, constants may only be read.  Calls of library
functions go over a stub beside the code, since a library may lie further away than a call instruction reaches.

Relocations are those that LLVM emits for small code; their names and formulas are those of the processor supplements
of the ELF standard.  ``S`` is the address of the symbol, ``A`` the addend and ``P`` the address of the field.

Nothing of an object is believed: every offset, size, index and distance is checked before it is used, and an object
that does not fit raises ``UnusableObject`` without a byte of memory having been touched.  What checked machine code
does when it runs is beyond a loader; the store of objects therefore has digests.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from vyre.adapters.cpu.native.features import AARCH64, X86_64
from vyre.adapters.cpu.native.linked_form import MOST_BYTES, Image, LinkedImage, Resolver, UnusableObject, Word
from vyre.adapters.cpu.native.memory import PAGE_BYTES, Pages, Protection, whole_pages


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


_HEADER: Final = Struct("<16sHHIQQQIHHHHHH")
_SECTION: Final = Struct("<IIQQQQIIQQ")
_SYMBOL: Final = Struct("<IBBHQQ")
_RELOCATION: Final = Struct("<QQq")
_FIELD: Final = Struct("<i")
_IDENTITY: Final = b"\x7fELF\x02\x01\x01"
_RELOCATABLE: Final = 1
_MACHINES: Final = {62: X86_64, 183: AARCH64}

_BITS, _SYMBOLS, _RELA, _NO_BITS, _REL, _UNWIND = 1, 2, 4, 8, 9, 0x70000001
_WRITE, _ALLOCATED, _EXECUTABLE, _THREAD_LOCAL = 0x1, 0x2, 0x4, 0x400
_UNDEFINED, _RESERVED, _ABSOLUTE = 0, 0xFF00, 0xFFF1
_SECTION_SYMBOL, _FILE_SYMBOL, _THREAD_LOCAL_SYMBOL, _IFUNC_SYMBOL = 3, 4, 6, 10
_GLOBAL, _WEAK = 1, 2

_STUBS: Final = {
    X86_64: bytes.fromhex("ff2502000000") + b"\xcc\xcc",  # jmp [rip + 2]; padding; the address
    AARCH64: bytes.fromhex("50000058" + "00021fd6"),  # ldr x16, 8; br x16; the address
}
_STUB_BYTES: Final = 16
_SLOT_BYTES: Final = 8


class _Section(NamedTuple):
    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_bytes: int


class _Symbol(NamedTuple):
    name: str
    binding: int
    kind: int
    section: int
    value: int


class Parts(NamedTuple):
    """The end of the code, the constants and the data in the mapping, in bytes; each begins where the last one ends.

    ``relocations``: section, offset in it, type, symbol number and addend of each.
    """

    code: int
    constants: int
    data: int
    relocations: list[tuple[int, int, int, int, int]]


def link_image(data: bytes, arch: str) -> LinkedImage | None:
    """Returns ``data``, an object for ``arch``, in the form that needs the least work to be loaded.

    None for an object that has other relocations than distances within it, slots and 64-bit addresses, and on AArch64.
    Raises ``UnusableObject``.
    """
    if arch != X86_64:
        return None
    try:
        return _Loader(data, arch, lambda name: None).link()
    except (StructError, UnicodeDecodeError) as error:
        raise UnusableObject(f"a record leaves the object ({error})") from None


def load_image(data: bytes, arch: str, resolve: Resolver) -> Image:
    """Returns ``data``, an object for ``arch``, in memory that is ready to run.

    Raises ``UnusableObject``, ``DeviceOutOfMemory``, and ``DispatchFailed`` if the system allows no executable pages.
    """
    try:
        return _Loader(data, arch, resolve).load()
    except (StructError, UnicodeDecodeError) as error:
        raise UnusableObject(f"a record leaves the object ({error})") from None


def exported_names(data: bytes, arch: str) -> tuple[str, ...]:
    """Returns the names of the global functions and variables of an object for ``arch``, sorted.

    Raises ``UnusableObject``.
    """
    try:
        symbols = _Loader(data, arch, lambda name: None).symbols
    except (StructError, UnicodeDecodeError) as error:
        raise UnusableObject(f"a record leaves the object ({error})") from None
    return tuple(sorted(symbol.name for symbol in symbols if _exported(symbol)))


class _Loader:
    """The state of one load.  ``placed`` holds offsets into the mapping of the sections that are loaded."""

    def __init__(self, data: bytes, arch: str, resolve: Resolver) -> None:
        if len(data) > MOST_BYTES:
            raise UnusableObject(f"it has {len(data)} bytes, more than {MOST_BYTES}")
        self.data = data
        self.arch = arch
        self.resolve = resolve
        self.sections = self._read_sections()
        self.symbols = self._read_symbols()
        self.placed: dict[int, int] = {}
        self.addresses: dict[int, int] = {}

    # ------------------------------------------------------------ reading
    def _read_sections(self) -> list[_Section]:
        if len(self.data) < _HEADER.size:
            raise UnusableObject(f"{len(self.data)} bytes are no ELF object")
        header = _HEADER.unpack_from(self.data)
        identity, kind, machine, _, _, _, table_offset, _, _, _, _, entry_bytes, count, names = header
        if not identity.startswith(_IDENTITY) or kind != _RELOCATABLE:
            raise UnusableObject("it is no relocatable ELF object of 64 bits, lowest byte first")
        if _MACHINES.get(machine) != self.arch:
            made_for = _MACHINES.get(machine, f"machine {machine}")
            raise UnusableObject(f"it was made for {made_for}, not for {self.arch}")
        if entry_bytes != _SECTION.size or not self._holds(table_offset, count * _SECTION.size) or names >= count:
            raise UnusableObject("its table of sections leaves the object")
        raw = list(_SECTION.iter_unpack(self.data[table_offset : table_offset + count * _SECTION.size]))
        strings = self._strings(*raw[names][4:6])
        sections = []
        end = len(self.data)
        for name, kind, flags, _, offset, size, link, info, alignment, entry_bytes in raw:
            if offset + size > end and kind not in (0, _NO_BITS):
                raise UnusableObject("a section leaves the object")
            text = _text(strings, name)
            sections.append(_Section(text, kind, flags, offset, size, link, info, alignment or 1, entry_bytes))
        return sections

    def _read_symbols(self) -> list[_Symbol]:
        tables = [section for section in self.sections if section.kind == _SYMBOLS]
        if len(tables) != 1:
            raise UnusableObject(f"it has {len(tables)} tables of symbols instead of one")
        table = tables[0]
        if table.entry_bytes != _SYMBOL.size or table.size % _SYMBOL.size or table.link >= len(self.sections):
            raise UnusableObject("its table of symbols is malformed")
        strings = self._strings(*self.sections[table.link][3:5])
        return [
            _Symbol(_text(strings, name) if name else "", info >> 4, info & 15, section, value)
            for name, info, _, section, value, _ in _SYMBOL.iter_unpack(self.data[table.offset :][: table.size])
        ]

    def _holds(self, offset: int, nbytes: int) -> bool:
        return offset + nbytes <= len(self.data)

    def _strings(self, offset: int, size: int) -> bytes:
        if not self._holds(offset, size):
            raise UnusableObject("a table of names leaves the object")
        return self.data[offset : offset + size]

    # ------------------------------------------------------------ laying out
    def lay_out(self) -> Parts:
        """Gives every loaded section, stub and slot its place."""
        loaded = [(number, section) for number, section in enumerate(self.sections) if _loaded(section)]
        relocations = self._relocations({number for number, _ in loaded})
        stubs, slots = self._outside(relocations)
        code = self._place(0, [each for each in loaded if _executable(each[1])])
        self.stubs = dict(zip(sorted(stubs), range(_aligned(code, _STUB_BYTES), MOST_BYTES, _STUB_BYTES), strict=False))
        code = whole_pages(_aligned(code, _STUB_BYTES) + len(stubs) * _STUB_BYTES)
        constants = _aligned(
            self._place(code, [each for each in loaded if not each[1].flags & (_EXECUTABLE | _WRITE)]), _SLOT_BYTES
        )
        self.slots = dict(zip(sorted(slots), range(constants, MOST_BYTES, _SLOT_BYTES), strict=False))
        constants = whole_pages(constants + len(slots) * _SLOT_BYTES)
        data = whole_pages(self._place(constants, [each for each in loaded if each[1].flags & _WRITE]))
        if not 0 < data <= MOST_BYTES:
            raise UnusableObject(f"it asks for {data} bytes of memory")
        return Parts(code, constants, data, relocations)

    def load(self) -> Image:
        code, constants, data, relocations = self.lay_out()
        pages = Pages(data)
        try:
            pages.write(0, self._contents(pages.address, data, relocations))
            pages.protect(0, code, Protection.EXECUTE)
            pages.protect(code, constants - code, Protection.READ)
        except BaseException:
            pages.close()
            raise
        return Image(pages, self._exported(pages.address))

    def link(self) -> LinkedImage | None:
        code, constants, data, relocations = self.lay_out()
        references = [(place + _STUB_BYTES - _SLOT_BYTES, number, 0) for number, place in self.stubs.items()]
        references += [(place, number, 0) for number, place in self.slots.items()]
        for owner, offset, kind, number, addend in relocations:
            if kind == _ABSOLUTE_64:
                references.append((self.placed[owner] + offset, number, addend))
            elif kind not in DISTANCES_X86_64 or not self._moves_along(kind, number):
                return None
        if any(self.symbols[number].section == _ABSOLUTE for _, number, _ in references):
            return None
        self.resolve = lambda name: 0  # an address that depends on the process becomes a word
        contents = self._contents(0, data, relocations)
        words = tuple(self._word(*each) for each in references)
        return LinkedImage(code, constants, contents, words, self._exported(0))

    def _moves_along(self, kind: int, number: int) -> bool:
        """Returns whether what a relocation refers to keeps its distance wherever the image lies."""
        if kind in _THROUGH_SLOT[self.arch] or (kind in _CALLS[self.arch] and number in self.stubs):
            return True
        return self.symbols[number].section not in (_UNDEFINED, _ABSOLUTE)

    def _word(self, offset: int, number: int, addend: int) -> Word:
        symbol = self.symbols[number]
        name, is_weak = (symbol.name, symbol.binding == _WEAK) if symbol.section == _UNDEFINED else ("", False)
        return Word(offset, self._address(number, 0) + addend, name, is_weak)

    def _place(self, start: int, sections: list[tuple[int, _Section]]) -> int:
        for number, section in sections:
            if section.alignment > PAGE_BYTES or section.alignment & (section.alignment - 1):
                raise UnusableObject(f"section {section.name!r} asks for an alignment of {section.alignment} bytes")
            if section.flags & _THREAD_LOCAL:
                raise UnusableObject(f"section {section.name!r} holds variables of threads")
            self.placed[number] = start = _aligned(start, section.alignment)
            start += section.size
            if start > MOST_BYTES:
                raise UnusableObject(f"section {section.name!r} has {section.size} bytes")
        return start

    def _relocations(self, loaded: set[int]) -> list[tuple[int, int, int, int, int]]:
        """Returns section, offset in it, type, symbol number and addend of every relocation of a loaded section."""
        entries = []
        for section in self.sections:
            if section.kind not in (_RELA, _REL):
                continue
            if section.info >= len(self.sections):
                raise UnusableObject("relocations name a section that does not exist")
            if section.info not in loaded:
                continue
            if section.kind == _REL or section.entry_bytes != _RELOCATION.size or section.size % _RELOCATION.size:
                raise UnusableObject(f"the relocations {section.name!r} have another form than this architecture's")
            if self.sections[section.info].kind == _NO_BITS:
                raise UnusableObject("relocations change a section without contents")
            for offset, info, addend in _RELOCATION.iter_unpack(self.data[section.offset :][: section.size]):
                if info >> 32 >= len(self.symbols):
                    raise UnusableObject("a relocation names a symbol that does not exist")
                entries.append((section.info, offset, info & 0xFFFFFFFF, info >> 32, addend))
        return entries

    def _outside(self, relocations: list[tuple[int, int, int, int, int]]) -> tuple[set[int], set[int]]:
        """Returns the symbols that need a stub and those that need a slot with their address."""
        stubs, slots = set(), set()
        for _, _, kind, number, _ in relocations:
            if kind in _THROUGH_SLOT[self.arch]:
                slots.add(number)
            elif kind in _CALLS[self.arch] and self.symbols[number].section == _UNDEFINED:
                stubs.add(number)
        return stubs, slots

    # ------------------------------------------------------------ relocating
    def _address(self, number: int, base: int) -> int:
        address = self.addresses.get(number)
        if address is None:
            address = self.addresses[number] = self._find(self.symbols[number], base)
        return address

    def _find(self, symbol: _Symbol, base: int) -> int:
        if symbol.kind in (_THREAD_LOCAL_SYMBOL, _IFUNC_SYMBOL):
            raise UnusableObject(f"symbol {symbol.name!r} is of kind {symbol.kind}")
        if symbol.section == _UNDEFINED:
            address = self.resolve(symbol.name) if symbol.name else None
            if address is None and not (symbol.binding == _WEAK and symbol.name):
                raise UnusableObject(f"it needs {symbol.name!r}, which neither the C library nor vyre offers")
            return address or 0
        if symbol.section == _ABSOLUTE:
            return symbol.value
        if symbol.section >= _RESERVED or symbol.section not in self.placed:
            raise UnusableObject(f"symbol {symbol.name!r} lies in section {symbol.section}, which is not loaded")
        if symbol.value > self.sections[symbol.section].size:
            raise UnusableObject(f"symbol {symbol.name!r} lies beyond its section")
        return base + self.placed[symbol.section] + symbol.value

    def _contents(self, base: int, nbytes: int, relocations: list[tuple[int, int, int, int, int]]) -> bytearray:
        memory = bytearray(nbytes)
        for number, start in self.placed.items():
            section = self.sections[number]
            if section.kind != _NO_BITS:
                memory[start : start + section.size] = self.data[section.offset : section.offset + section.size]
        for number, position in self.stubs.items():
            target = self._address(number, base).to_bytes(8, "little")
            memory[position : position + _STUB_BYTES] = _STUBS[self.arch] + target
        for number, position in self.slots.items():
            memory[position : position + _SLOT_BYTES] = self._address(number, base).to_bytes(8, "little")
        relocate = relocate_x86_64 if self.arch == X86_64 else relocate_aarch64
        through, calls = _THROUGH_SLOT[self.arch], _CALLS[self.arch]
        near = DISTANCES_X86_64 if self.arch == X86_64 else frozenset()
        for owner, offset, kind, number, addend in relocations:
            if kind in through:
                target_address = base + self.slots[number]
            elif kind in calls and number in self.stubs:
                target_address = base + self.stubs[number]
            else:
                target_address = self._address(number, base)
            position, room = self.placed[owner] + offset, self.sections[owner].size - offset
            distance = target_address + addend - base - position
            if kind in near and room >= 4 and -0x8000_0000 <= distance <= 0x7FFF_FFFF:
                _FIELD.pack_into(memory, position, distance)  # most relocations; the others, and what is refused, below
                continue
            place = Place(memory, position, base, room)
            try:
                relocate(place, kind, target_address, addend)
            except OutOfReach as error:
                where = f"{offset} bytes into {self.sections[owner].name!r}"
                raise UnusableObject(f"{where}, for {self.symbols[number].name!r}: {error}") from None
        return memory

    def _exported(self, base: int) -> dict[str, int]:
        return {
            symbol.name: self._address(number, base) for number, symbol in enumerate(self.symbols) if _exported(symbol)
        }


_THROUGH_SLOT: Final = {X86_64: frozenset((9, 41, 42)), AARCH64: frozenset((311, 312))}
"""Types of relocations whose target is a slot with the address of the symbol (GOTPCREL, ADR_GOT_PAGE and such)."""

_ABSOLUTE_64: Final = 1
"""The type of x86-64 relocations to a 64-bit address (R_X86_64_64)."""

_CALLS: Final = {X86_64: frozenset((4,)), AARCH64: frozenset((282, 283, 314))}
"""Types of relocations of calls and jumps, which may go to a stub (PLT32, CALL26, JUMP26)."""


def _exported(symbol: _Symbol) -> bool:
    if not symbol.name or symbol.binding not in (_GLOBAL, _WEAK):
        return False
    return symbol.section not in (_UNDEFINED, _ABSOLUTE) and symbol.kind not in (_SECTION_SYMBOL, _FILE_SYMBOL)


def _loaded(section: _Section) -> bool:
    if not section.flags & _ALLOCATED or not section.size:
        return False
    return section.kind in (_BITS, _NO_BITS) and section.name != ".eh_frame" and not section.name.startswith(".note")


def _executable(section: _Section) -> bool:
    if section.flags & _EXECUTABLE and (section.flags & _WRITE or section.kind == _NO_BITS):
        raise UnusableObject(f"section {section.name!r} is executable, and writable or empty")
    return bool(section.flags & _EXECUTABLE)


def _aligned(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment


def _text(strings: bytes, start: int) -> str:
    end = strings.find(b"\0", start)
    if start >= len(strings) or end < 0:
        if start == 0:
            return ""
        raise UnusableObject("a name leaves its table")
    return strings[start:end].decode()
