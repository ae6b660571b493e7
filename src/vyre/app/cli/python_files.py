"""Programs are read from Python files: ``kernel.py``, ``kernel.py:saxpy`` and ``kernel.py:scale:T=f32,n=16``.

The file is run, as ``python kernel.py`` would run it, but under a name of its own: ``if __name__ == "__main__":`` is
skipped.  What it prints goes to standard error.
"""

from __future__ import annotations

import inspect
import linecache
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final

from vyre.adapters.files import read_file
from vyre.adapters.program_files import LoadedProgram
from vyre.app.cli.targets import Target
from vyre.app.kernels.kernel import Kernel
from vyre.domain.errors import InvalidConfig, UnreadableFile, VyreError
from vyre.domain.frontend.inlined import Inlined
from vyre.domain.ir.builder import ProgramBuilder
from vyre.domain.ir.foreign_names import closest
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import walk_statements

_PREFIX: Final = "vyre_file_"
"""The name under which a file is run is this prefix with the name of the file."""


def held(target: Target) -> Kernel[...] | Program:
    """Runs the file and returns the kernel or the program that the target names.

    A function that needs no arguments is called for its program.  Raises ``UnreadableFile`` for a file that cannot be
    read or run, ``InvalidConfig`` for a name that is missing, no kernel or not the only one, and the errors of the
    file's own use of vyre.
    """
    module = _run(target.file)
    name = target.name or _only_name(target.file, module)
    if name not in vars(module):
        names = _names(module)
        near = closest(name, names)
        raise InvalidConfig(
            f"{target.file} holds no `{name}`",
            fix=f"write {target.file}:{near}." if near else f"name one of {', '.join(names)}." if names else _NOTHING,
        )
    return _made(target.file, name, vars(module)[name])


def object_of(target: Target) -> object:
    """Runs the file and returns what it holds under the name of the target, None if there is nothing.

    Raises ``UnreadableFile``, and the errors of the file's own use of vyre.
    """
    return vars(_run(target.file)).get(target.name or "")


def python_program(target: Target) -> LoadedProgram:
    """Returns the program that the target names; raises what ``held`` raises, and ``KernelSourceError``."""
    definition = held(target)
    program = program_of(definition, target)
    return LoadedProgram(program, _source(target.file, program))


def program_of(definition: Kernel[...] | Program, target: Target) -> Program:
    """Returns the program of what was found, for the values of the target.

    Raises ``InvalidConfig`` where values are missing or not wanted.
    """
    if isinstance(definition, Program):
        if target.values:
            raise InvalidConfig(
                f"{target} is one program, and generic over nothing", fix=f"leave out {', '.join(target.values)}."
            )
        return definition
    return specialized(definition, target, target.values)


def specialized(kernel: Kernel[...], target: Target, values: Mapping[str, Any]) -> Program:
    """Returns the program of a kernel for types and static values; raises ``InvalidConfig`` for other names."""
    generic, statics = kernel._parameters.generic, kernel._parameters.statics
    wanted = (*generic, *statics)
    if set(values) != set(wanted):
        example = ",".join(f"{name}={'f32' if name in generic else '16'}" for name in wanted)
        raise InvalidConfig(
            f"{target} is generic over {', '.join(wanted) or 'nothing'}",
            fix=f"write {target.file}:{kernel.__name__}:{example}." if wanted else f"write {target}.",
        )
    return kernel.specialize(**values) if wanted else kernel.program


# ---------------------------------------------------------------- running the file
def _run(file: Path) -> ModuleType:
    data = read_file(file)
    module = ModuleType(f"{_PREFIX}{file.stem}")
    module.__file__ = str(file)
    linecache.checkcache(str(file))  # kernels are made of the lines that it keeps
    with _importable(module, file.parent), redirect_stdout(sys.stderr):
        try:
            exec(compile(data, str(file), "exec", dont_inherit=True), vars(module))
        except VyreError:
            raise
        except (Exception, SystemExit) as error:
            raise UnreadableFile(
                f"{file} cannot be run: {_where(error, file)}{_what(error)}",
                fix=f"`python {file}` shows the whole traceback."
                if not isinstance(error, SyntaxError)
                else "repair its syntax.",
            ) from error
    return module


@contextmanager
def _importable(module: ModuleType, folder: Path) -> Iterator[None]:
    """Lets the file import files beside it, as ``python file.py`` does."""
    sys.modules[module.__name__] = module
    sys.path.insert(0, str(folder.resolve()))
    try:
        yield
    finally:
        sys.path.remove(str(folder.resolve()))


def _where(error: BaseException, file: Path) -> str:
    """Returns the last line of the file that the error passed through, as ``line 7: ``."""
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: " if error.lineno is not None else ""
    line, step = None, error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == str(file):
            line = step.tb_lineno
        step = step.tb_next
    return f"line {line}: " if line is not None else ""


def _what(error: BaseException) -> str:
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


# ---------------------------------------------------------------- names
_NOTHING: Final = "decorate a function with @vyre.kernel; `vyre new` writes an example."


def _names(module: ModuleType) -> list[str]:
    """Returns the names of the kernels, programs and functions that return one which the file itself makes."""
    kernels, functions = [], []
    for name, value in vars(module).items():
        if isinstance(value, Kernel):
            if value.__wrapped__.__module__ == module.__name__:
                kernels.append(name)
        elif isinstance(value, Program):
            kernels.append(name)
        elif isinstance(value, FunctionType) and value.__module__ == module.__name__ and _makes_a_program(value):
            functions.append(name)
    distinct = {id(vars(module)[name]): name for name in reversed(kernels)}
    return list(reversed(distinct.values())) or functions


def _makes_a_program(function: FunctionType) -> bool:
    try:
        returned = function.__annotations__.get("return")
    except Exception:  # annotations of 3.14 are evaluated here, and may fail in any way
        return False
    text = returned if isinstance(returned, str) else getattr(returned, "__name__", "")
    return text.rpartition(".")[2].partition("[")[0] in ("Program", "Kernel") and not _needed(function)


def _needed(function: FunctionType) -> list[str]:
    """Returns the parameters without which a function cannot be called."""
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [
        one.name
        for one in inspect.signature(function).parameters.values()
        if one.default is one.empty and one.kind not in kinds
    ]


def _only_name(file: Path, module: ModuleType) -> str:
    names = _names(module)
    if not names:
        raise InvalidConfig(f"{file} holds no kernel and no program", fix=_NOTHING)
    if len(names) > 1:
        listed = f"{', '.join(names[:-1])} and {names[-1]}"
        raise InvalidConfig(f"{file} holds {listed}: name one", fix=f"write {file}:{names[0]}.")
    return names[0]


def _made(file: Path, name: str, value: Any) -> Kernel[...] | Program:
    if isinstance(value, FunctionType):
        needed = _needed(value)
        if needed:
            raise InvalidConfig(
                f"{file}:{name} is a function that needs {', '.join(needed)}",
                fix="decorate it with @vyre.kernel, or name a function that takes nothing and returns a program.",
            )
        with redirect_stdout(sys.stderr):
            try:
                value = value()
            except VyreError:
                raise
            except (Exception, SystemExit) as error:
                raise UnreadableFile(
                    f"{file}:{name} cannot be called: {_where(error, file)}{_what(error)}",
                    fix="call it in Python to see the whole traceback.",
                ) from error
    if isinstance(value, Kernel | Program):
        return value
    if isinstance(value, Inlined):
        raise InvalidConfig(
            f"{file}:{name} is a @vyre.function, which only kernels call", fix="name a kernel that calls it."
        )
    if isinstance(value, ProgramBuilder):
        raise InvalidConfig(f"{file}:{name} is a builder, and no program yet", fix=f"write program = {name}.build().")
    raise InvalidConfig(
        f"{file}:{name} is of type {type(value).__name__}, which is no kernel and no program",
        fix="name a kernel, a program, or a function that returns one.",
    )


def _source(file: Path, program: Program) -> str | None:
    """Returns the text of the file if all statements of the program come from it, so that errors may show its lines."""
    files = {stmt.loc.file for stmt in walk_statements(program.body) if stmt.loc is not None}
    return read_file(file).decode("utf-8", "replace") if files == {str(file)} else None
