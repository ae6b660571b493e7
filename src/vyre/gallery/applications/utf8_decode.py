"""UTF-8 to code points: each lane looks at one byte, and decodes the character that starts there, if one does."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

import vyre
from vyre import In, Out, Program, like, u8, u32
from vyre.gallery.example import Array, Case, Dispatcher, Example, answered_by

NO_CHARACTER = 0xFFFF_FFFF
"""The result at a byte at which no character starts."""


@vyre.kernel(workgroup=128)
def utf8_decode(text: In[u8], points: Out[u32, like("text")]) -> None:
    """``points`` holds the code point of the character that starts at each byte of a valid text."""
    position = vyre.global_id()
    lead = text[position]
    leading_ones = vyre.clz(~(lead << 24))
    match leading_ones:
        case 0:
            points[position] = lead
        case 1:
            points[position] = NO_CHARACTER
        case 2:
            points[position] = (lead & 0x1F) << 6 | text[position + 1] & 0x3F
        case 3:
            points[position] = (lead & 0x0F) << 12 | (text[position + 1] & 0x3F) << 6 | text[position + 2] & 0x3F
        case 4:
            high = (lead & 0x07) << 18 | (text[position + 1] & 0x3F) << 12
            points[position] = high | (text[position + 2] & 0x3F) << 6 | text[position + 3] & 0x3F
        case _:
            vyre.trap(position, "no byte of UTF-8")


def decode(session: Dispatcher, program: Program, text: Array) -> npt.NDArray[np.uint32]:
    """Returns the code points of a text (u8)."""
    points = session.dispatch(program, {"text": text})["points"]
    return np.asarray(points[points != NO_CHARACTER], np.uint32)


TEXT = "Grüße, κόσμε! 你好, мир. € 𝄞 🂡 \N{BYTE ORDER MARK}\N{REPLACEMENT CHARACTER}\U0010fffd\x00\x7f\x80\u07ff\u0800"


def case() -> Case:
    """Returns a text with characters of one to four bytes, and its code points from Python."""
    text = TEXT * 20
    expected = np.array([ord(character) for character in text], np.uint32)
    return Case({"text": np.frombuffer(text.encode(), np.uint8)}, {"points": expected})


EXAMPLE = Example(
    "utf8-decode", "decode UTF-8 with a switch", utf8_decode, case, "str.encode", answered_by(decode, "points")
)
