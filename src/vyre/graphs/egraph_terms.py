"""Terms by operator and children, and equalities between them, built in Python or from NumPy columns."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from vyre.domain.arguments import expect, items_of
from vyre.domain.errors import InvalidInput
from vyre.domain.printable import shown
from vyre.graphs.columns import Words, column, pairs

_WORD: Final = "I"


class Terms:
    """The terms and equalities of an e-graph, as columns on the host: how they are given, and read."""

    __slots__ = ("_children", "_classes", "_equalities", "_names", "_numbers", "_offsets", "_operators")

    def __init__(self) -> None:
        self._operators = array(_WORD)
        self._offsets = array(_WORD, (0,))
        self._children = array(_WORD)
        self._equalities = array(_WORD)
        self._numbers: dict[str, int] | None = {}
        self._names: list[str] | None = []
        self._classes: Words | None = None

    @classmethod
    def from_columns(
        cls,
        operators: npt.ArrayLike,
        offsets: npt.ArrayLike,
        children: npt.ArrayLike,
        equalities: npt.ArrayLike = (),
        *,
        classes: npt.ArrayLike | None = None,
        names: Sequence[str] | None = None,
    ) -> Self:
        """Returns the e-graph of columns of whole numbers, each from 0 to 2^32 - 1.

        ``operators``: shape (n,), the operator of every term.  ``offsets``: shape (n + 1,), ascending from 0; the
        children of term t are ``children[offsets[t] : offsets[t + 1]]``.  ``children``: shape (offsets[n],), classes.
        ``equalities``: shape (k, 2), pairs of equal classes.  ``classes``: shape (n,), the class of every term, any
        numbers; without it term t is class t.  ``names[i]`` is the name of operator i; without names an operator is
        shown as its number, and ``add`` is refused.

        Raises ``InvalidInput`` for other types, shapes and numbers, and for a class that has no term.
        """
        terms = cls()
        columns: dict[str, Words] = {
            "operators": column("operators", operators, np.uint32),
            "offsets": column("offsets", offsets, np.uint32),
            "children": column("children", children, np.uint32),
            "equalities": pairs("equalities", equalities),
        }
        count = len(columns["operators"])
        _require_offsets(columns["offsets"], count, len(columns["children"]))
        terms._names = terms._numbers = None
        if names is not None:
            for index, name in enumerate(items_of("names", names)):
                expect(f"names[{index}]", name, str, "a text", InvalidInput)
            terms._names = list(names)
            terms._numbers = {name: number for number, name in enumerate(terms._names)}
            if len(terms._numbers) != len(terms._names):
                raise InvalidInput("two operators have one name", fix="give every operator a name of its own.")
            if count and columns["operators"].max() >= len(terms._names):
                raise InvalidInput(
                    f"operators holds {columns['operators'].max()}, and there are {len(terms._names)} name(s)",
                    fix="give a name for every operator, or no names.",
                )
        if classes is not None:
            terms._classes = column("classes", classes, np.uint32, count).copy()
        for name in ("children", "equalities"):
            terms._require_classes(name, columns[name].ravel(), count)
        terms._operators.frombytes(columns["operators"].tobytes())
        terms._offsets = array(_WORD, columns["offsets"].tobytes())
        terms._children.frombytes(columns["children"].tobytes())
        terms._equalities.frombytes(columns["equalities"].tobytes())
        return terms

    def add(self, operator: str, *children: int) -> int:
        """Adds a term, and returns its number.  ``children`` are numbers of earlier terms.

        Raises ``InvalidInput`` for a child that is no term of this e-graph, and for an e-graph of columns that have no
        names or classes of their own.
        """
        numbers, names, term = self._numbers, self._names, len(self._operators)
        if numbers is None or names is None or self._classes is not None:
            raise InvalidInput(
                f"a term {shown(operator)} is added to columns with {'classes' if names else 'no names of operators'}",
                fix="build an e-graph from columns with `names` and without `classes`, or as `EGraph()`.",
            )
        if type(operator) is not str:
            expect("operator", operator, str, "a text", InvalidInput)
        for child in children:
            if type(child) is not int or not 0 <= child < term:
                self._require_term(child, f"a child of {shown(operator)}")
        number = numbers.setdefault(operator, len(names))
        if number == len(names):
            names.append(operator)
        self._children.extend(children)
        self._operators.append(number)
        self._offsets.append(len(self._children))
        return term

    def equate(self, one: int, other: int) -> None:
        """Says that two terms are equal.  Raises ``InvalidInput`` for what is no term of this e-graph."""
        self._require_term(one, "a side of an equality")
        self._require_term(other, "a side of an equality")
        classes = self._classes
        pair = (one, other) if classes is None else (int(classes[one]), int(classes[other]))
        self._equalities.extend(pair)

    # ---- reading
    def __len__(self) -> int:
        return len(self._operators)

    @property
    def operators(self) -> Words:
        """The operator number of every term, a copy."""
        return np.array(self._operators, np.uint32)

    @property
    def offsets(self) -> Words:
        """The first child of every term in ``children``, and the number of all children, a copy."""
        return np.array(self._offsets, np.uint32)

    @property
    def children(self) -> Words:
        """The classes of all children, term by term, a copy."""
        return np.array(self._children, np.uint32)

    @property
    def equalities(self) -> Words:
        """The pairs of classes that were said to be equal, of shape (k, 2), a copy."""
        return np.array(self._equalities, np.uint32).reshape(-1, 2)

    @property
    def classes(self) -> Words:
        """The class of every term before it is closed, a copy."""
        return np.arange(len(self), dtype=np.uint32) if self._classes is None else self._classes.copy()

    @property
    def has_classes(self) -> bool:
        """Whether the terms were given classes, and so are not all classes of their own."""
        return self._classes is not None

    def operator_name(self, number: int) -> str:
        """Returns the name of an operator, or its number as a text where operators have no names."""
        return str(number) if self._names is None else self._names[number]

    # ---- checking
    def _require_term(self, term: object, what: str) -> None:
        if isinstance(term, int | np.integer) and not isinstance(term, bool) and 0 <= term < len(self):
            return
        raise InvalidInput(
            f"{what} is {shown(term)}, and the e-graph has {len(self)} term(s), numbered from 0",
            fix="use the numbers that `add` returns, of terms that were added before.",
        )

    def _require_classes(self, name: str, classes: Words, count: int) -> None:
        if len(classes) == 0:
            return
        missing = ~np.isin(classes, self._classes) if self._classes is not None else classes >= count
        if missing.any():
            raise InvalidInput(
                f"{name} holds the class {classes[np.argmax(missing)]}, which no term has",
                fix="use classes of terms; without `classes`, term t is class t.",
            )


def _require_offsets(offsets: Words, count: int, children: int) -> None:
    fine = len(offsets) == count + 1 and offsets[0] == 0 and offsets[-1] == children
    if not fine or (offsets[1:] < offsets[:-1]).any():
        raise InvalidInput(
            f"offsets has {len(offsets)} element(s) for {count} term(s) and {children} child(ren), or does not ascend "
            "from 0 to the number of children",
            fix="give the place of the first child of every term, and the number of all children.",
        )
