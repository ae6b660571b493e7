"""Converts the errors of the command-line parser into typed errors with a ``Fix:``."""

from __future__ import annotations

import re
from typing import Any, Final

from vyre.domain.errors import InvalidConfig
from vyre.domain.ir.foreign_names import closest

_EXTRA: Final = re.compile(r"Got unexpected extra argument\S* \((.*)\)$")  # which click and typer spell differently


def usage_error(error: Any) -> InvalidConfig:
    """Returns the typed error for a ``ClickException`` of click, or of typer's copy of it."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "vyre"
    help_ = f"`{command} --help` describes the command"
    match type(error).__name__:
        case "NoSuchOption":
            known = [name for p in context.command.params for name in p.opts] if context is not None else []
            near = closest(error.option_name, known)
            return InvalidConfig(
                f"`{command}` has no option {error.option_name}",
                fix=f"write {near}; {help_}." if near else f"leave it out; {help_}.",
            )
        case "MissingParameter" if error.param is not None:
            kind, name = error.param.param_type_name, error.param.opts[0]
            return InvalidConfig(
                f"`{command}` needs the {kind} {name}",
                fix=f"write `{command} {name if kind == 'option' else name.upper()} ...`; {help_}.",
            )
        case "BadOptionUsage":
            return InvalidConfig(error.format_message(), fix=f"write a value after {error.option_name}.")
        case _:
            return _other(error, context, command, help_)


def _other(error: Any, context: Any, command: str, help_: str) -> InvalidConfig:
    message = error.format_message().removesuffix(".")
    commands = getattr(context.command, "commands", None) if context is not None else None
    if commands:
        return InvalidConfig(
            message, fix=f"use one of {', '.join(sorted(commands))}; `{command} --help` describes them."
        )
    if (extra := _EXTRA.match(message)) is not None:
        message = f"`{command}` does not take {extra[1]}"
    return InvalidConfig(message, fix=f"`{command} --help` lists its arguments and options.")
