"""The extra ``cli``: the packages that only the command line needs."""

from __future__ import annotations


def missing_extra(error: Exception) -> str | None:
    """Returns the package of the extra ``cli`` whose absence made an import fail, or None."""
    package = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    return package if package in ("typer", "rich", "click") else None
