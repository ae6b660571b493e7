"""The cases of a check, in groups.

A group, a key and a seed make the same case everywhere, so that a certificate needs only to name its cases.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from itertools import count
from typing import Final, NamedTuple

from vyre.app.host_arrays import HostInputs
from vyre.domain.cached import cached_property
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.ir.program import Program
from vyre.domain.validation.validator import check_rules
from vyre.gallery.example import Answers, Example, Inputs
from vyre.gallery.registry import examples
from vyre.testing.conform.witness_rows import operation_rows
from vyre.testing.operations import Operation, Row, operations
from vyre.testing.operator_matrix import operator_matrix
from vyre.testing.operator_programs import OperatorCase
from vyre.testing.random_programs.generator import Case
from vyre.testing.random_programs.grid_loops import any_program
from vyre.testing.random_programs.memory import Order


class Group(Enum):
    """The groups, in the order in which they begin."""

    OPERATIONS = "operations"
    """Every operation at every type, on at least a thousand rows of witnesses."""
    AGAIN = "again"
    """Some of these programs with their rows in the other order, for what a backend remembers of a program."""
    FORMS = "forms"
    """Operators with literals for operands, and atomics and subgroup operations in workgroups of several shapes."""
    GALLERY = "gallery"
    RANDOM = "random"


class ConformCase(NamedTuple):
    """A case by its group and key.  ``rows`` is the number of witnesses of ``operation``, which may be None."""

    group: Group
    key: str
    case: Case
    operation: Operation | None = None
    rows: tuple[Row, ...] = ()

    @property
    def name(self) -> str:
        """The group and the key."""
        return f"{self.group.value}/{self.key}"

    def identity(self) -> str:
        """Returns the BLAKE3 digest of everything that decides the result: program, inputs and dispatch."""
        from blake3 import blake3

        digest = blake3(self.case.program.digest)
        for name, data in sorted(self.case.inputs.items()):
            digest.update(name.encode() + b"\0" + len(data).to_bytes(8, "little") + data)
        digest.update(repr(self.case.config).encode())
        return digest.hexdigest()

    def with_rows(self, rows: tuple[Row, ...]) -> ConformCase:
        """Returns the case of the same operation with other witnesses."""
        assert self.operation is not None
        return _operation_case(self.operation, rows)


_ORDERS: Final = (Order.INDEPENDENT, Order.INDEPENDENT, Order.ATOMIC)
"""The orders of consecutive random programs; those with data races have no result on most backends."""
_AGAIN: Final = 8
"""One operation of so many is run again."""
_DIGITS: Final = 40
"""At most so many digits have the numbers of random programs."""


class _FirstDispatch(Exception):
    """Ends an example at its first dispatch, which it holds."""

    def __init__(self, program: Program, inputs: Inputs, config: DispatchConfig | None) -> None:
        super().__init__()
        self.program, self.inputs, self.config = program, inputs, config


class _Catching:
    """A session that runs nothing."""

    def dispatch(self, program: Program, inputs: Inputs, config: DispatchConfig | None = None) -> Answers:
        raise _FirstDispatch(program, inputs, config)


@dataclass
class Cases:
    """All cases of a seed.

    ``canonical_order``: the backend runs lanes in the canonical schedule, so that programs whose result depends on the
    order of atomics have one result on it, and are among the cases.  ``counts_steps``: budgets of steps apply.
    ``lacking``: the names of what the backend does not declare, which random programs hardly use.
    """

    seed: int = 0
    canonical_order: bool = False
    counts_steps: bool = False
    lacking: frozenset[str] = frozenset()

    def group(self, group: Group) -> Iterator[ConformCase]:
        """Yields the cases of a group; the random ones never end."""
        match group:
            case Group.OPERATIONS:
                yield from (
                    _operation_case(each, operation_rows(each, self.seed)) for each in self._operations.values()
                )
            case Group.AGAIN:
                yield from (self.find(group, name) for name in list(self._operations)[::_AGAIN])
            case Group.FORMS:
                yield from (_form_case(each) for each in self._forms.values())
            case Group.GALLERY:
                yield from filter(self._has_one_result, map(self._gallery, self._examples))
            case Group.RANDOM:
                for number in count(self.seed):
                    order = _ORDERS[number % len(_ORDERS)]
                    if order is Order.INDEPENDENT or self.canonical_order:
                        yield self._random(number, order)

    def find(self, group: Group, key: str) -> ConformCase:
        """Returns the case of a key; raises ``KeyError`` for one that no case has."""
        match group:
            case Group.OPERATIONS:
                operation = self._operations[key]
                return _operation_case(operation, operation_rows(operation, self.seed))
            case Group.AGAIN:
                first = self.find(Group.OPERATIONS, key)
                return first.with_rows(first.rows[::-1])._replace(group=group)
            case Group.FORMS:
                return _form_case(self._forms[key])
            case Group.GALLERY:
                return self._gallery(key)
            case Group.RANDOM:
                if not (key.isascii() and key.isdecimal() and len(key) <= _DIGITS):
                    raise KeyError(key)
                return self._random(int(key), _ORDERS[int(key) % len(_ORDERS)])

    @cached_property
    def _operations(self) -> Mapping[str, Operation]:
        return {operation.name: operation for operation in operations()}

    @cached_property
    def _forms(self) -> Mapping[str, OperatorCase]:
        return {each.name: each for each in operator_matrix()}

    @cached_property
    def _examples(self) -> Mapping[str, Example]:
        return examples()

    def _gallery(self, key: str) -> ConformCase:
        """Returns the first dispatch of an example; those that iterate choose its inputs themselves."""
        example = self._examples[key]
        try:
            example.run(_Catching(), example.program(), example.case())
        except _FirstDispatch as first:
            inputs = HostInputs(first.program)
            views = inputs.views(dict(first.inputs))
            data = {name: bytes(view) for name, view in zip(inputs.names, views, strict=True)}
            case = Case(first.program, data, first.config or DispatchConfig(), Order.INDEPENDENT)
            return ConformCase(Group.GALLERY, key, case)
        raise AssertionError(f"{key} dispatches nothing")

    def _has_one_result(self, case: ConformCase) -> bool:
        return self.canonical_order or not check_rules(case.case.program).order_sensitive

    def _random(self, number: int, order: Order) -> ConformCase:
        case = any_program(number, order, lacking=self.lacking)
        config = replace(case.config, chunk_workgroups=None)
        if not self.counts_steps:
            config = replace(config, step_budget=None)
        return ConformCase(Group.RANDOM, str(number), replace(case, config=config))


def _operation_case(operation: Operation, rows: tuple[Row, ...]) -> ConformCase:
    case = Case(operation.program(len(rows)), operation.inputs(rows), DispatchConfig(), Order.INDEPENDENT)
    return ConformCase(Group.OPERATIONS, operation.name, case, operation, rows)


def _form_case(form: OperatorCase) -> ConformCase:
    return ConformCase(Group.FORMS, form.name, Case(form.program, form.inputs, DispatchConfig(), Order.INDEPENDENT))
