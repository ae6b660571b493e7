"""Canonical JSON that carries the digest of its content.

The digest detects damage and manual edits.  It is no signature: everyone who can write the file can seal it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from vyre.domain.errors import MalformedJson
from vyre.domain.nesting import read_json


@dataclass(frozen=True, slots=True)
class SealedForm:
    """A kind of sealed document.

    ``domain`` separates the digests of one kind from those of others; ``malformed`` makes the error of this kind from
    a reason.
    """

    domain: bytes
    malformed: Callable[[str], MalformedJson]

    def seal(self, content: dict[str, Any]) -> str:
        """Returns canonical JSON of ``content`` with its digest, without a line end."""
        return _text(content | {"blake3": self._digest(content)})

    def unseal(self, text: str) -> dict[str, Any]:
        """Returns the content of ``text`` after verifying its digest; raises ``MalformedJson``.

        Whether the text is canonical is not checked.
        """
        try:
            content = read_json(text)
            whole = isinstance(content, dict) and content.pop("blake3", None) == self._digest(content)
        except ValueError:  # no JSON, or nested too deep
            raise self.malformed("it is not JSON") from None
        if not whole:
            raise self.malformed("its digest does not match")
        return dict(content)

    def _digest(self, content: object) -> str:
        from blake3 import blake3

        return blake3(self.domain + b"\0" + _text(content).encode()).hexdigest()


def _text(content: object) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"))
