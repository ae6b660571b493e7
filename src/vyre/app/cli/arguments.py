"""Parsing of ``name=value`` options: inputs typed by their buffer, outputs, launch shapes, constants and counts."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Collection, Iterable, Mapping
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from vyre.adapters.files import read_file
from vyre.app.host_arrays import Signature
from vyre.app.host_memory import host_dtype
from vyre.domain.errors import InvalidConfig, InvalidInput, UnreadableFile
from vyre.domain.ir.buffers import Access, Buffer, MemoryKind, inputs_of, outputs_of
from vyre.domain.ir.types import ScalarType
from vyre.domain.strict_json import parse

if TYPE_CHECKING:
    import numpy.typing as npt

_SAVE: Final = "save it again with numpy.save, as an array of numbers."
_LITERALS: Final = "; short arrays may be written out, as --in name=1,2,3"
_NPY_MAGIC: Final = b"\x93NUMPY"
_NPY_HEADERS: Final = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_ZIP_MAGIC: Final = b"PK\x03\x04"
_BOOLS: Final = {"true": True, "false": False}


def pairs(options: Iterable[str], flag: str) -> dict[str, str]:
    """Returns ``name=value`` options by name; raises ``InvalidConfig`` for anything else, and for a name given
    twice.
    """
    values: dict[str, str] = {}
    for option in options:
        name, equals, value = option.partition("=")
        if not name or not equals:
            raise InvalidConfig(f"{flag} {option!r} is not name=value", fix=f"write {flag} name=value.")
        if name in values:
            raise InvalidConfig(f"{flag} gives `{name}` twice", fix="give it once.")
        values[name] = value
    return values


def checks_races(check: str | None) -> bool:
    """Returns whether ``--check races`` is given; raises ``InvalidConfig`` for any other check."""
    if check not in (None, "races"):
        raise InvalidConfig(f"--check {check} is no check", fix="use --check races.")
    return check is not None


def inputs(options: Iterable[str], program: Signature) -> dict[str, Any]:
    """Returns arguments by buffer name: ``@file`` is read, anything else is a literal of the buffer's type."""
    takes = {b.name: b for b in inputs_of(program.abi_buffers)}
    texts = pairs(options, "--in")
    for name in texts:
        if name not in takes:
            raise InvalidInput(f"--in: `{name}` is no input", fix=f"the inputs are {', '.join(takes) or 'none'}.")
    return {name: _input(takes[name], text) for name, text in texts.items()}


def expect_inputs(names: Collection[str], program: Signature) -> None:
    """Raises ``InvalidInput`` if an input of the program is not given."""
    expect_all(names, {b.name: b.is_push for b in inputs_of(program.abi_buffers)})


def expect_all(passed: Collection[str], takes: Mapping[str, bool]) -> None:
    """Raises ``InvalidInput`` if an input is not given.  ``takes`` says for each whether it is a number."""
    missing = [name for name in takes if name not in passed]
    if missing:
        names = ", ".join(f"`{name}`" for name in missing)
        options = " ".join(f"--in {name}={'NUMBER' if takes[name] else '@FILE'}" for name in missing)
        raise InvalidInput(
            f"--in: input{'s' * (len(missing) > 1)} {names} {'is' if len(missing) == 1 else 'are'} missing",
            fix=f"add {options}{'' if all(takes[name] for name in missing) else _LITERALS}.",
        )


def argument(name: str, text: str, element: ScalarType | None, *, is_number: bool) -> Any:
    """Returns the argument of a kernel: ``@file`` is read, anything else is a literal.

    ``element``: its type; None where the kernel is generic, whose numbers are taken as they are and whose arrays are
    read from ``.npy`` files, which say their types.
    """
    if element is not None:
        kind = MemoryKind.PUSH if is_number else MemoryKind.GLOBAL
        value = _input(Buffer(name, 0, Access.READ_WRITE, element, kind=kind), text)
        return np.frombuffer(value, host_dtype(element)) if isinstance(value, bytes) else value
    if text.startswith("@"):
        value = _file(name, Path(text[1:]))
        if not isinstance(value, bytes):
            return value
    elif is_number:
        return _number(text, f"--in {name}")
    raise InvalidInput(
        f"--in {name}: the kernel is generic, so that the type of `{name}` is not known",
        fix=f"pass --in {name}=@file.npy, or name the type after the kernel: kernel.py:name:T=f32.",
    )


def constant(text: str, where: str) -> int | float | bool:
    """Returns a number, ``true`` or ``false``; raises ``InvalidInput`` that names ``where``."""
    return _number(text, where)


def outputs(options: Iterable[str], program: Signature) -> dict[str, Path]:
    """Returns files by output name."""
    returned = [b.name for b in outputs_of(program.abi_buffers)]
    texts = pairs(options, "--out")
    for name in texts:
        if name not in returned:
            raise InvalidInput(f"--out: `{name}` is no output", fix=f"the outputs are {', '.join(returned) or 'none'}.")
    targets = {name: Path(text) for name, text in texts.items()}
    if len({os.path.realpath(path) for path in targets.values()}) < len(targets):
        raise InvalidConfig("--out names one file for two outputs", fix="give each output a file of its own.")
    return targets


def shape(text: str | None, flag: str) -> tuple[int, ...] | None:
    """Parses ``8`` or ``8,4`` to a tuple of ints."""
    if text is None:
        return None
    try:
        return tuple(int(part, 0) for part in text.split(","))
    except ValueError:
        raise InvalidConfig(f"{flag} {text!r} is no shape", fix=f"write {flag} 64 or {flag} 64,4.") from None


def constants(options: Iterable[str]) -> dict[str, int | float | bool] | None:
    """Returns the values of ``--spec``; the program gives them their types."""
    return {name: _number(value, f"--spec {name}") for name, value in pairs(options, "--spec").items()} or None


def counts(options: Iterable[str]) -> dict[str, int] | None:
    """Returns the element counts of ``--size``."""
    sizes: dict[str, int] = {}
    for name, value in pairs(options, "--size").items():
        count = _number(value, f"--size {name}")
        if type(count) is not int:
            raise InvalidConfig(f"--size {name}={value} is no count", fix="give a number of elements.")
        sizes[name] = count
    return sizes or None


def _input(buffer: Buffer, text: str) -> Any:
    if text.startswith("@"):
        return _file(buffer.name, Path(text[1:]))
    return _literal(buffer, text)


def _file(name: str, path: Path) -> npt.NDArray[Any] | bytes:
    data = read_file(path)
    if path.suffix.lower() == ".npz" or data.startswith(_ZIP_MAGIC):
        raise UnreadableFile(f"--in {name}: {path} is an archive of arrays", fix="save the array alone, by numpy.save.")
    if path.suffix.lower() != ".npy" and not data.startswith(_NPY_MAGIC):
        return data
    try:
        with warnings.catch_warnings(action="ignore"):  # of headers in the ways of Python 2
            return np.ascontiguousarray(_npy_array(data))
    except Exception as error:  # NumPy's reader of headers raises whatever evaluating Python's literals does
        why = str(error) or type(error).__name__
        raise UnreadableFile(f"--in {name}: {path} is no readable .npy file ({why})", fix=_SAVE) from None


def _npy_array(data: bytes) -> npt.NDArray[Any]:
    """Returns the array of a ``.npy`` file without a copy: no memory is taken for a size that is only claimed."""
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    if version not in _NPY_HEADERS:
        raise ValueError(f"version {version} is not for arrays of numbers")
    shape, is_fortran, dtype = _NPY_HEADERS[version](stream)
    if dtype.hasobject:
        raise ValueError("it holds Python objects")
    nbytes = prod(shape) * dtype.itemsize
    if nbytes != len(data) - stream.tell():
        raise ValueError(f"it has {len(data) - stream.tell()} bytes of elements, and its header says {nbytes}")
    elements = np.frombuffer(data, dtype, offset=stream.tell()) if nbytes else np.empty(shape, dtype)
    return elements.reshape(shape, order="F" if is_fortran else "C")


def _literal(buffer: Buffer, text: str) -> Any:
    """Parses a number, ``true``/``false``, several separated by commas, or a quoted string for byte buffers."""
    assert isinstance(buffer.element, ScalarType)  # the program is valid
    if text.startswith('"'):
        return _string(buffer, text)
    numbers = [_number(part, f"--in {buffer.name}") for part in text.split(",")] if text else []
    if buffer.is_push:
        if len(numbers) != 1:
            raise InvalidInput(f"--in {buffer.name}: a parameter is one number", fix="give one.")
        return _parameter(buffer.element, numbers[0])
    if buffer.element is ScalarType.BF16:
        raise InvalidInput(f"--in {buffer.name}: bf16 has no literals", fix="pass @file with the raw 16-bit words.")
    return _array(buffer, buffer.element, numbers)


def _parameter(element: ScalarType, number: int | float | bool) -> int | float | bool:
    if element is ScalarType.BOOL and number in (0, 1):
        return bool(number)
    return _integral(number) if element.is_integer else number


def _array(buffer: Buffer, element: ScalarType, numbers: list[int | float | bool]) -> npt.NDArray[Any]:
    dtype = host_dtype(element)
    if dtype.kind != "f":
        numbers = [_integral(number) for number in numbers]
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        for number in numbers:
            if not limits.min <= number <= limits.max:
                raise InvalidInput(
                    f"--in {buffer.name}: {number} does not fit {element.text}", fix=f"use {limits.min}..{limits.max}."
                )
    if dtype.kind == "b" and any(number not in (0, 1) for number in numbers):
        raise InvalidInput(f"--in {buffer.name}: a bool is true, false, 1 or 0", fix="use one of these.")
    try:
        with np.errstate(all="ignore"):
            return np.array(numbers, dtype=dtype)
    except OverflowError:
        raise InvalidInput(f"--in {buffer.name}: a number is beyond {element.text}", fix="write inf.") from None


def _string(buffer: Buffer, text: str) -> npt.NDArray[np.uint8]:
    if buffer.element is not ScalarType.U8:
        raise InvalidInput(
            f"--in {buffer.name}: a string is data for u8, not {buffer.element.text}", fix="give numbers, or @file."
        )
    try:
        return np.frombuffer(str(parse(text)).encode(), np.uint8)
    except ValueError as error:  # it holds half of a character, or is no JSON
        raise InvalidInput(f"--in {buffer.name}: {text} is no string ({error})", fix="quote it as in JSON.") from None


def _number(text: str, where: str) -> int | float | bool:
    word = text.strip().lower()
    if word in _BOOLS:
        return _BOOLS[word]
    try:
        return int(word, 0)
    except ValueError:
        pass
    try:
        return float.fromhex(word) if word.startswith(("0x", "-0x")) else float(word)
    except (ValueError, OverflowError):
        file = f", or {where.removeprefix('--in ')}=@{text} to read that file" if where.startswith("--in ") else ""
        fix = f"write 12, 0x0c, -1.5, inf, nan, true or false{file}."
        raise InvalidInput(f"{where}: {text!r} is no number", fix=fix) from None


def _integral(number: int | float | bool) -> int:
    if isinstance(number, float) and not number.is_integer():
        raise InvalidInput(f"{number!r} is no integer", fix="give whole numbers to an integer buffer.")
    return int(number)
