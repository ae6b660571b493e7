"""The commands by name; a command's module is imported when the command is used."""

from __future__ import annotations

import re
import traceback
from importlib import import_module
from typing import Annotated, Any, Final

import typer

from vyre.adapters.terminal import COLOURS, Colours, OutputLost, complain, put
from vyre.app.cli import report
from vyre.app.cli.exit_codes import MEANINGS, Exit, exit_code
from vyre.app.cli.extra import missing_extra
from vyre.app.cli.loading import InvalidSource
from vyre.domain.errors import DispatchTimeout, InvalidConfig, StepBudgetExceeded, VyreError
from vyre.domain.ir.collector import collector_paused
from vyre.domain.ir.foreign_names import closest

_MODULES: Final = {
    **dict.fromkeys(("run", "show", "emit", "aot", "validate"), "program_commands"),
    **dict.fromkeys(("backends", "doctor", "demo"), "machine_commands"),
    **{name: name for name in ("explain", "replay", "tune", "calibrate", "new")},
    "cache": "cache_commands",
    **{name: name for name in ("optimize", "dialects")},
    "conform": "vyre.testing.conform.command",
}
"""The module that defines each command, under the command's name: one of this package, or by its full name one of a
layer above, which this layer may load and not import.
"""
_FIXES: Final = {
    DispatchTimeout.default_fix: "give a longer --timeout, or make the dispatch smaller.",
    StepBudgetExceeded.default_fix: "make the loop end.",
}
"""The advice to users of the command, for the fixes that name Python's settings of a dispatch."""
# Typer's own copy of click, or the installed one, depending on the version of typer.
_USAGE_ERROR: Final[type[Exception]] = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")


def run_command(args: list[str]) -> int:
    """Runs the command line; errors become one line with a ``Fix:`` (or JSON) and an exit code."""
    setting = COLOURS.set(COLOURS.get())
    try:
        return _run_command(args)
    finally:
        COLOURS.reset(setting)


def _run_command(args: list[str]) -> int:
    wants_json = "--json" in args
    try:
        args = without_colours(args)
        with collector_paused():  # imported modules are not garbage
            command = typer.main.get_command(_application(args))
            # Not app(): it has other exit codes for interrupts and closed pipes.
            context = command.make_context("vyre", list(args))
        with context:
            outcome = command.invoke(context)
    except InvalidSource as invalid:
        report.print_error(invalid.error, as_json=wants_json, source=invalid.source)
        return exit_code(invalid.error)
    except VyreError as error:
        error.fix = _FIXES.get(error.fix, error.fix)
        report.print_error(error, as_json=wants_json)
        return exit_code(error)
    except typer.Exit as error:
        return int(error.exit_code)
    except _USAGE_ERROR as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            complain(error.format_message())  # type: ignore[attr-defined]  # a ClickException
        else:
            report.print_error(usage_error(error), as_json=wants_json)
        return Exit.USAGE
    except OutputLost:
        raise
    except Exception as error:  # a defect of vyre: show where, and do not look like a wrong result
        if missing_extra(error) is not None:
            raise
        complain(traceback.format_exc())
        complain("internal error. Fix: report this with the program and the command line.")
        return Exit.FAILED
    return int(outcome) if isinstance(outcome, int) else Exit.OK


def _application(args: list[str]) -> typer.Typer:
    """Returns all commands, or only the one that the first argument names, since importing all takes longer than most
    run.
    """
    app = typer.Typer(
        name="vyre",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        epilog=_EPILOG,
    )
    app.callback()(_vyre)
    for name in args[:1] if args[:1] and args[0] in _MODULES else _MODULES:
        home = _MODULES[name]
        loaded = getattr(import_module(home if "." in home else f"{__package__}.{home}"), name)
        if isinstance(loaded, typer.Typer):
            for command in loaded.registered_commands:
                command.epilog = _EPILOG
            app.add_typer(loaded, epilog=_EPILOG)
        else:
            app.command(epilog=_EPILOG)(loaded)
    return app


def without_colours(args: list[str]) -> list[str]:
    """Returns the arguments without ``--color WHEN``, which every command takes and which is set here.

    Raises ``InvalidConfig`` for another word.
    """
    left: list[str] = []
    rest = iter(args)
    for arg in rest:
        if arg == "--":
            return [*left, arg, *rest]
        if arg != "--color" and not arg.startswith("--color="):
            left.append(arg)
            continue
        when = next(rest, "") if arg == "--color" else arg.partition("=")[2]
        if when not in (words := [each.value for each in Colours]):
            raise InvalidConfig(f"--color {when!r} is no setting of colours", fix=f"use one of {', '.join(words)}.")
        COLOURS.set(Colours(when))
    return left


_EPILOG: Final = "\n".join(
    (
        "\b",
        "Colours: --color auto (on terminals without NO_COLOR), always or never.",
        "",
        "\b",
        "Exit codes:",
        *(f"  {int(code):<4} {text}" for code, text in MEANINGS.items()),
    )
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from vyre import __version__

        put(f"vyre {__version__}")
        raise typer.Exit


def _vyre(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Write, check, inspect and run typed kernel programs."""


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
