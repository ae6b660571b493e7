"""The messages between a process and its compile server, over two pipes.

A request is two lengths, a JSON object with the features and the effort, and the LLVM IR.  An answer is a status, a
length and that many bytes: an object, or the text of an error.  The server sends ``READY`` once, before it reads.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple, Protocol

from vyre.adapters.cpu.native.compilation import Effort
from vyre.adapters.cpu.native.features import CpuFeatures, parse_features
from vyre.domain.strict_json import canonical, parse

MODULE: Final = "vyre.adapters.cpu.native.serving"
"""The module that runs as the server."""

_REQUEST: Final = Struct("<IQ")
_ANSWER: Final = Struct("<BQ")
_MOST_BYTES: Final = 1 << 30


class Status(IntEnum):
    """The kinds of answers: an object, or the text of ``KernelCompileFailed`` or of ``BackendUnavailable``."""

    READY = 0
    OBJECT = 1
    FAILED = 2
    UNAVAILABLE = 3


class Request(NamedTuple):
    """One module to be compiled."""

    text: str
    features: CpuFeatures
    effort: Effort


class Answer(NamedTuple):
    """An answer of the server: ``content`` is an object for ``OBJECT``, UTF-8 text for errors."""

    status: Status
    content: bytes


class Reader(Protocol):
    """A buffered binary stream."""

    def read(self, nbytes: int, /) -> bytes:
        """Returns ``nbytes`` bytes, or fewer if the stream ends before."""


class Broken(Exception):
    """A stream ended inside a message, or holds no message."""


def encode_request(request: Request) -> bytes:
    """Returns the bytes of a request."""
    head = canonical({"features": request.features.text, "effort": request.effort.value}).encode()
    text = request.text.encode()
    return _REQUEST.pack(len(head), len(text)) + head + text


def read_request(stream: Reader) -> Request | None:
    """Returns the next request, or None if the stream has ended.  Raises ``Broken``."""
    start = stream.read(_REQUEST.size)
    if not start:
        return None
    lengths = _REQUEST.unpack(_all(start, _REQUEST.size))
    head, text = (_read(stream, nbytes) for nbytes in lengths)
    try:
        fields = parse(head)
        return Request(text.decode(), parse_features(fields["features"]), Effort(fields["effort"]))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise Broken(f"no request: {error}") from error


def encode_answer(answer: Answer) -> bytes:
    """Returns the bytes of an answer."""
    return _ANSWER.pack(answer.status, len(answer.content)) + answer.content


def read_answer(stream: Reader) -> Answer:
    """Returns the next answer.  Raises ``Broken`` if the stream ends before or holds something else."""
    status, nbytes = _ANSWER.unpack(_all(stream.read(_ANSWER.size), _ANSWER.size))
    try:
        known = Status(status)
    except ValueError:
        raise Broken(f"no answer has the status {status}") from None
    return Answer(known, _read(stream, nbytes))


def _read(stream: Reader, nbytes: int) -> bytes:
    if nbytes > _MOST_BYTES:
        raise Broken(f"a message of {nbytes} bytes")
    return _all(stream.read(nbytes), nbytes)


def _all(data: bytes, nbytes: int) -> bytes:
    if len(data) != nbytes:
        raise Broken(f"the stream ended after {len(data)} of {nbytes} bytes")
    return data
