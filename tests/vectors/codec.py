"""Golden-vector values as Python values and back, driven by type hints.

Conventions of the policy files: floats are ``"0x"`` and 16 hex digits of the binary64 bits, byte strings
lower-case hex, enums their value, records plain objects, unions of records ``{"kind": snake_case_name, ...}``,
failures ``{"error_code": code}`` beside ``{"ok": value}``.  ``PlanCodec`` has those of the planning files.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
import struct
import types
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Annotated, Any, Final, NamedTuple, TypeAlias, Union, get_args, get_origin, get_type_hints

from vyre.domain.errors import ErrorCode, PlanError, VyreError

Json: TypeAlias = Any
Decoder: TypeAlias = Callable[[Json], object]


class Row(NamedTuple):
    """How one ``fn`` is answered: call ``function`` with the decoded ``in``, encode what it returns.

    Parameters are taken from ``in`` by name; a function of one parameter that ``in`` does not name gets all of
    it as one record.  ``fallible``: the file pins failures too, so results are wrapped in ``ok``.
    ``agrees(expected, actual)`` compares; the default is ``matches``.
    """

    function: Callable[..., object]
    fallible: bool = False
    agrees: Callable[[Json, Json], bool] | None = None


class Codec:
    """``decoders`` adds types that the hints alone do not explain."""

    def __init__(self, decoders: Mapping[object, Decoder] | None = None) -> None:
        self._decoders: Final = dict(decoders or {})

    def answer(self, row: Row, given: Json) -> Json:
        """The ``out`` that our code has for an ``in``."""
        hints = get_type_hints(row.function, include_extras=True)
        parameters = [p.name for p in inspect.signature(row.function).parameters.values() if p.default is p.empty]
        if len(parameters) == 1 and not (isinstance(given, Mapping) and parameters[0] in given):
            arguments = {parameters[0]: self.decode(hints[parameters[0]], given)}
        else:
            arguments = {name: self.decode(hints[name], given[name]) for name in parameters}
        if not row.fallible:
            return self.encode(hints["return"], row.function(**arguments))
        try:
            return {"ok": self.encode(hints["return"], row.function(**arguments))}
        except VyreError as error:
            return self.failure(error)

    def agrees(self, expected: Json, actual: Json) -> bool:
        """Does an answer of ours agree with the file's?"""
        return matches(expected, actual)

    def failure(self, error: VyreError) -> Json:
        """``out`` of a fallible function that raised."""
        return {"error_code": reference_code(error)}

    def tag(self, cls: type) -> str:
        """``kind`` of a record in a union."""
        return snake_case(cls.__name__)

    def decode_float(self, value: Json) -> float:
        return float_of_bits(value)

    def encode_float(self, value: float) -> Json:
        return bits_of_float(value)

    def decode_enum(self, hint: type[Enum], value: Json) -> Enum:
        return hint(value)

    def encode_enum(self, value: Enum) -> Json:
        return value.value

    def decode(self, hint: Any, value: Json) -> Any:
        known = self._decoders.get(hint)
        if known is not None:
            return known(value)
        origin, args = get_origin(hint), get_args(hint)
        if origin is Annotated:
            return self.decode(args[0], value)
        if origin in (Union, types.UnionType):
            return self._decode_union(args, value)
        if origin in (tuple, list, frozenset):
            return self._decode_sequence(origin, args, value)
        if hint is float:
            return self.decode_float(value)
        if hint is bytes:
            return bytes.fromhex(value)
        if isinstance(hint, type) and issubclass(hint, Enum):
            return self.decode_enum(hint, value)
        if dataclasses.is_dataclass(hint):
            hints = get_type_hints(hint, include_extras=True)
            return hint(**{name: self.decode(hints[name], member) for name, member in value.items() if name != "kind"})  # type: ignore[operator]
        return value

    def encode(self, hint: Any, value: object) -> Json:
        if isinstance(value, Enum):
            return self.encode_enum(value)
        if isinstance(value, float):
            return self.encode_float(value)
        if isinstance(value, bytes):
            return value.hex()
        if isinstance(value, tuple) and not hasattr(value, "_fields"):
            return [self.encode(_item_hint(hint, place), item) for place, item in enumerate(value)]
        if dataclasses.is_dataclass(value):
            members = {f.name: f for f in dataclasses.fields(value) if f.compare}
            hints = get_type_hints(type(value), include_extras=True)
            encoded = {name: self.encode(hints[name], getattr(value, name)) for name in members}
            tagged = len([a for a in get_args(hint) if dataclasses.is_dataclass(a)]) > 1
            return {"kind": self.tag(type(value))} | encoded if tagged else encoded
        return value

    def _decode_union(self, args: tuple[Any, ...], value: Json) -> Any:
        if value is None:
            return None
        options = [a for a in args if a is not types.NoneType]
        if len(options) > 1 and isinstance(value, dict):
            options = [a for a in options if self.tag(a) == value["kind"]]
        return self.decode(options[0], value)

    def _decode_sequence(self, origin: Any, args: tuple[Any, ...], value: Json) -> Any:
        if origin is tuple and args[-1] is not Ellipsis:
            return tuple(self.decode(hint, item) for hint, item in zip(args, value, strict=True))
        return origin(self.decode(args[0], item) for item in value)


class PlanCodec(Codec):
    """Conventions of the planning files: floats as decimals or ``"NaN"``, ``"inf"``, ``"-inf"``; enum members and
    record kinds in camel case; failures ``{"err": {"kind": ..., fields}}``, of which ``field`` (the reference's name
    for a quantity) is no requirement."""

    def agrees(self, expected: Json, actual: Json) -> bool:
        if isinstance(expected, dict) and "err" in expected:
            expected = {"err": _without_field(expected["err"])}
        return matches(expected, actual)

    def failure(self, error: VyreError) -> Json:
        if not isinstance(error, PlanError):
            raise error
        return {"err": self._encode_error(error)}

    def _encode_error(self, error: PlanError) -> dict[str, Json]:
        fields = {
            name: self._encode_error(value) if isinstance(value, PlanError) else self.encode(None, value)
            for name, value in error.fields.items()
        }
        return {"kind": error.kind} | fields

    def tag(self, cls: type) -> str:
        return cls.__name__

    def decode_float(self, value: Json) -> float:
        return float(value)

    def encode_float(self, value: float) -> Json:
        if math.isnan(value):
            return "NaN"
        return value if math.isfinite(value) else ("inf" if value > 0 else "-inf")

    def decode_enum(self, hint: type[Enum], value: Json) -> Enum:
        return hint(snake_case(value))

    def encode_enum(self, value: Enum) -> Json:
        return camel_case(value.value) if isinstance(value.value, str) else value.value


def _without_field(error: dict[str, Json]) -> dict[str, Json]:
    kept = {name: member for name, member in error.items() if name != "field"}
    return kept | {"source": _without_field(kept["source"])} if "source" in kept else kept


def reference_code(error: VyreError) -> int:
    """Code of the reference for an error of ours: it has one for bad arguments and bad programs."""
    return int(ErrorCode.INVALID_PROGRAM if error.code is ErrorCode.INVALID_FIELD else error.code)


def matches(expected: Json, actual: Json) -> bool:
    """Every pinned field is equal; objects of ours may have more. All NaNs are one."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        return all(name in actual and matches(member, actual[name]) for name, member in expected.items())
    if isinstance(expected, list) and isinstance(actual, list):
        return len(expected) == len(actual) and all(map(matches, expected, actual))
    if isinstance(expected, str) and isinstance(actual, str) and _is_nan(expected) and _is_nan(actual):
        return True
    return type(expected) is type(actual) and bool(expected == actual)


def within(relative: float) -> Callable[[Json, Json], bool]:
    """Floats (as bits) whose relative difference is at most ``relative``; NaN is near NaN."""

    def agrees(expected: Json, actual: Json) -> bool:
        if matches(expected, actual):
            return True
        return math.isclose(float_of_bits(expected), float_of_bits(actual), rel_tol=relative)

    return agrees


def except_for(*unpinned: str) -> Callable[[Json, Json], bool]:
    """Records of which the members ``unpinned`` are no requirement."""

    def agrees(expected: Json, actual: Json) -> bool:
        return matches({name: member for name, member in expected.items() if name not in unpinned}, actual)

    return agrees


def float_of_bits(text: str) -> float:
    """``0x`` and 16 digits are binary64, 8 digits binary32."""
    raw = bytes.fromhex(text.removeprefix("0x"))
    return float(struct.unpack(">d" if len(raw) == 8 else ">f", raw)[0])


def bits_of_float(value: float) -> str:
    return "0x" + struct.pack(">d", value).hex()


def snake_case(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def camel_case(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def _is_nan(text: str) -> bool:
    return len(text) in (10, 18) and text.startswith("0x") and math.isnan(float_of_bits(text))


def _item_hint(hint: Any, place: int) -> Any:
    args = get_args(hint)
    if get_origin(hint) is not tuple:
        return object
    return args[0] if args[-1] is Ellipsis else args[place]
