"""What validation says of a program: ``Report``, and ``InvalidProgram``, the error that carries it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from vyre.domain.errors import BackendError, ErrorCode
from vyre.domain.excerpts import indented_excerpt
from vyre.domain.frozen import frozen
from vyre.domain.lazy_names import FunctionAbove

if TYPE_CHECKING:
    from vyre.domain.diagnostics import Diagnostic


@frozen
class Report:
    """All diagnostics of a program, each list in program order.

    ``lints`` are notes on code that is legal but probably not intended; ``validate`` computes them for valid
    programs.  ``order_sensitive`` means that results may depend on the order in which lanes reach atomics, so that
    schedules and backends are compared only under the canonical schedule.
    """

    errors: tuple[Diagnostic, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()
    notes: tuple[Diagnostic, ...] = ()
    order_sensitive: bool = False
    lints: tuple[Diagnostic, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the program is valid, that is, has no errors."""
        return not self.errors

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Returns errors, then warnings, then notes, then lints."""
        return self.errors + self.warnings + self.notes + self.lints

    def raise_if_invalid(self) -> None:
        """Raises ``InvalidProgram`` with this report if there are errors; its message is the first of them."""
        if self.errors:
            raise self.error()

    def error(self, excerpt: str = "") -> InvalidProgram:
        """Returns the error for a program that is not ``ok``; ``excerpt`` is the code that its first error means."""
        first, more = self.errors[0], len(self.errors) - 1
        where = "" if first.loc is None else f"{first.loc}: "
        others = "" if not more else f" (and {more} more error{'s' if more > 1 else ''})"
        message = f"{where}[{first.code}] {first.message}{others}"
        return InvalidProgram(message, fix=first.fix, report=self, excerpt=excerpt or indented_excerpt(first.loc))

    def _repr_html_(self) -> str:
        """Returns a piece of HTML for notebooks."""
        return _view(self)

    def __str__(self) -> str:
        """Returns the output of ``vyre validate`` for a program without text."""
        return self.render()

    def render(self, source: str | None = None) -> str:
        """Returns text for people: every diagnostic, and a last line that counts them."""
        counts = (("error", self.errors), ("warning", self.warnings), ("note", self.notes + self.lints))
        summary = ", ".join(f"{len(number)} {word}{'s' * (len(number) > 1)}" for word, number in counts if number)
        blocks = [diagnostic.render(source) for diagnostic in self.diagnostics]
        verdict = "the program is valid" if self.ok else "the program is invalid"
        return "\n\n".join((*blocks, f"{verdict}: {summary or 'nothing to report'}"))

    def to_json(self) -> dict[str, Any]:
        """Returns a JSON object: ``ok``, ``order_sensitive`` and the lists of diagnostics."""
        return {
            "ok": self.ok,
            "order_sensitive": self.order_sensitive,
            "errors": [diagnostic.to_json() for diagnostic in self.errors],
            "warnings": [diagnostic.to_json() for diagnostic in self.warnings],
            "notes": [diagnostic.to_json() for diagnostic in self.notes],
            "lints": [diagnostic.to_json() for diagnostic in self.lints],
        }


_view: Final[FunctionAbove[[Report], str]] = FunctionAbove("Report._repr_html_")


class InvalidProgram(BackendError):
    """The program breaks a rule; ``report`` holds every diagnostic when validation found it.

    ``excerpt`` is the line of the source with what is meant underlined, where it is known.
    """

    code = ErrorCode.INVALID_PROGRAM
    default_fix = "run `vyre validate` on the program and repair every error it lists."

    def __init__(
        self, message: str, *, fix: str | None = None, report: Report | None = None, excerpt: str = ""
    ) -> None:
        self.report = report
        self.excerpt: str = excerpt
        super().__init__(message, fix=fix)
        if excerpt:
            self.args: tuple[Any, ...] = (f"{self.args[0]}\n{excerpt}",)
