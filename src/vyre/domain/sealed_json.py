"""Canonical JSON that carries the digest of its content.

The digest detects damage and manual edits.  It is no signature: everyone who can write the file can seal it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from vyre.domain.errors import InvalidField, MalformedJson
from vyre.domain.frozen import frozen
from vyre.domain.strict_json import NotStrictJson, canonical, parse

T = TypeVar("T")


@frozen
class SealedForm:
    """A kind of sealed document.

    ``domain`` separates the digests of one kind from those of others; ``malformed`` makes the error of this kind from
    a reason; ``version`` is the member of that name, None where a document has none.
    """

    domain: bytes
    malformed: Callable[[str], MalformedJson]
    version: int | None = None

    @classmethod
    def of(cls, domain: bytes, problem: str, fix: str, version: int | None = None) -> SealedForm:
        """Returns a form whose errors say ``problem`` with the reason, and ``fix``."""
        return cls(domain, lambda why: MalformedJson(f"{problem}: {why}", fix=fix), version)

    def seal(self, content: dict[str, Any]) -> str:
        """Returns canonical JSON of ``content`` with its digest, without a line end."""
        return canonical(content | {"blake3": self._digest(content)})

    def unseal(self, text: str | bytes) -> dict[str, Any]:
        """Returns the content of ``text`` after verifying its digest; raises ``MalformedJson``.

        Whether the text is canonical is not checked.
        """
        try:
            content = parse(text)
        except NotStrictJson as error:
            raise self.malformed(f"it {error}") from None
        if not isinstance(content, dict) or content.pop("blake3", None) != self._digest(content):
            raise self.malformed("its digest does not match")
        return content

    def read(self, text: str | bytes, of: Callable[[dict[str, Any]], T], write: Callable[[T], str]) -> T:
        """Returns what ``of`` makes of the content of ``text``, of which ``write`` must give the same text.

        Raises ``MalformedJson`` where it does not, for another version, and for what ``of`` says by a ``LookupError``,
        ``AttributeError``, ``TypeError``, ``ValueError`` or ``InvalidField``.
        """
        content = self.unseal(text)
        if content.get("version") != self.version:
            raise self.malformed(f"it is of version {content.get('version')!r}, not {self.version}")
        try:
            value = of(content)
        except (LookupError, AttributeError, TypeError, ValueError, InvalidField) as error:
            raise self.malformed(str(error)) from None
        if write(value) != (text if isinstance(text, str) else text.decode("utf-8", "replace")):
            raise self.malformed("it is not canonical")
        return value

    def _digest(self, content: object) -> str:
        from blake3 import blake3

        return blake3(self.domain + b"\0" + canonical(content).encode()).hexdigest()
