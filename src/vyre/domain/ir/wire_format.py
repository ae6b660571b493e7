"""Layout and opcodes of ``.vyrb``, shared by its encoder and its decoder.

A file is::

    magic "VYRB" · version (1 byte) · BLAKE3 of the body · BLAKE3 of the names · number of the definitions
    · length and encoding of each definition · length of the body · body · names

The encoding of a definition is its id, the three numbers of its version, number and types of the parameters, type of
the result, and statements up to ``RESULT``, which follows its operand.  The digest in the header is that of the
program: it covers the digests of the definitions, which are those of their encodings, and the body.  The names of their
parameters and locals come first in the names section, a list for each definition.

The body holds everything that can change a result and nothing else; the names section holds the rest.  Integers are
unsigned LEB128 in their shortest form, strings a byte length and UTF-8 (lone surrogates as three bytes), float
literals their bits in little-endian order.

Body: three workgroup axes; the number of buffers and a record for each; statements up to the end.  Buffers are
numbered: those of the ABI by ascending binding, then workgroup and private memory by first use, then the unused
ones of both by their records.  A record is access, flags, kind, type, count, and, depending on the flags, the number
of the ``like`` buffer and the output range.

Statements are a stack machine: an expression is written in evaluation order, operands before operators, and a
statement's opcode follows its operands.  ``IF``, ``LOOP`` and ``BLOCK`` open a body that ``END`` closes; ``ELSE``
occurs only before a non-empty body.  ``SWITCH`` follows its selector; each ``ARM``, with the number of its labels and
the labels as literals, opens a body, ``DEFAULT`` a last one that is not empty, and ``END`` closes the statement.
``GRID_LOOP`` follows its limit, has the number of its flag and opens a body; ``END`` closes it and declares the number
of rounds.  A variable is the position of its declaration among those visible; async tags and spec constants are
numbered by first use, and the first use of a spec constant is followed by its name and default.  ``CALL`` follows its
arguments and has the number of the operation by first use, the number of arguments, and, at the first use, the id.

Names: flags and the program's name; for each buffer name, binding, hints and its position in the declaration order;
then, each list preceded by its length, names of locals in order of declaration, async tags, and for each block 0, or
1 and a region's generator, or 2 and generator and source; with ``HAS_SIZES``, for each parameter that holds the size of
an axis the numbers of its buffer and of that array, and the axis counted from the last one, which is 1; with
``HAS_LOCATIONS``, the strings, the places and the nodes of ``LocationTable``, each place and each node a list.
"""

from __future__ import annotations

from typing import Final

from vyre.domain.ir.types import ScalarType

MAGIC: Final = b"VYRB"
VERSION: Final = 5
"""The version of the format.  Those below it were never released."""
DIGEST_BYTES: Final = 32
HEADER_BYTES: Final = len(MAGIC) + 1 + 2 * DIGEST_BYTES
MAX_WIRE_BYTES: Final = 64 << 20

# Flags of a buffer record.
IS_OUTPUT: Final = 1
HAS_LIKE: Final = 2
HAS_RANGE: Final = 4

# Flags of the names section.
HAS_NAME: Final = 1
NON_COMPOSABLE: Final = 2
HAS_SIZES: Final = 4
HAS_LOCATIONS: Final = 8

# A flag of the type of a parameter.
IS_ATTRIBUTE: Final = 0x80

# Entries of the list of blocks.
PLAIN_BLOCK: Final = 0
REGION: Final = 1
SOURCED_REGION: Final = 2

# Expressions. A unary operator is UNARY + its tag, a binary one BINARY + its tag.  ``expr.FUNCTIONS`` has the opcodes
# of those that follow their operands and have nothing else, ``expr.CONVERSIONS`` those that a type follows.
LITERAL: Final[dict[ScalarType, int]] = {
    ScalarType.U32: 0x01,
    ScalarType.I32: 0x02,
    ScalarType.U64: 0x03,
    ScalarType.I64: 0x04,
    ScalarType.F32: 0x05,
    ScalarType.F64: 0x06,
    ScalarType.BOOL: 0x07,
}
VAR: Final = 0x08
LOAD: Final = 0x09
LENGTH: Final = 0x0A
LAUNCH_ID: Final = 0x0B
ATOMIC: Final = 0x12
SPEC_CONST: Final = 0x16
CALL: Final = 0x1B
NATIVE: Final = 0x1C
"""Written for digests of lowerings alone: no decoder reads it."""
UNARY: Final = 0x40
BINARY: Final = 0x80

# Statements.
LET: Final = 0xC0
ASSIGN: Final = 0xC1
STORE: Final = 0xC2
IF: Final = 0xC3
ELSE: Final = 0xC4
LOOP: Final = 0xC5
BLOCK: Final = 0xC6
END: Final = 0xC7
BREAK: Final = 0xC8
CONTINUE: Final = 0xC9
RETURN: Final = 0xCA
BARRIER: Final = 0xCB
ASYNC_LOAD: Final = 0xCC
ASYNC_STORE: Final = 0xCD
ASYNC_WAIT: Final = 0xCE
TRAP: Final = 0xCF
INDIRECT_DISPATCH: Final = 0xD0
SWITCH: Final = 0xD1
ARM: Final = 0xD2
DEFAULT: Final = 0xD3
GRID_LOOP: Final = 0xD4
RESULT: Final = 0xD5
