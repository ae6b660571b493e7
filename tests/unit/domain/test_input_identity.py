"""Keys of input tuples; their exact values are pinned by the golden vectors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vectors.seeds.input_identity import domain_separated_exact_input_key, exact_input_key
from vyre.domain.byte_view import byte_view
from vyre.domain.errors import InvalidInput
from vyre.domain.program_report import InvalidProgram

tuples = st.lists(st.binary(max_size=6), max_size=4)


@given(tuples, tuples)
def test_keys_are_equal_iff_the_tuples_are(a: list[bytes], b: list[bytes]) -> None:
    assert (exact_input_key(a) == exact_input_key(b)) == (a == b)


@given(tuples, st.data())
def test_tag_id_and_features_separate(inputs: list[bytes], data: st.DataObject) -> None:
    parts = st.tuples(st.binary(min_size=1, max_size=3), st.integers(0, 3), st.integers(0, 3))
    a, b = data.draw(parts), data.draw(parts)
    assert (domain_separated_exact_input_key(*a, inputs) == domain_separated_exact_input_key(*b, inputs)) == (a == b)
    assert domain_separated_exact_input_key(*a, inputs) != exact_input_key(inputs)


def test_an_array_is_its_bytes() -> None:
    array = np.arange(6, dtype="<u2").reshape(2, 3)
    assert exact_input_key([array]) == exact_input_key([array.tobytes()])


def test_an_empty_tag_is_refused() -> None:
    with pytest.raises(InvalidProgram, match="Fix:"):
        domain_separated_exact_input_key(b"", 0, 0, [])


@pytest.mark.parametrize("dtype", ["<f4", ">f4", "f2", "?", "c8", "u1", [("a", "<u4"), ("b", "<f8")]])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,), (0, 4)])
def test_byte_view_of_any_contiguous_array(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.zeros(shape, dtype)
    view = byte_view(array)
    assert (view.nbytes, view.format, view.readonly, view.ndim) == (array.nbytes, "B", True, 1)


def test_byte_view_copies_nothing() -> None:
    array = np.zeros(4, np.uint8)
    view = byte_view(array)
    array[2] = 9
    assert view[2] == 9


@pytest.mark.parametrize("bad", [np.zeros(8)[::2], np.zeros((2, 3)).T, memoryview(b"abcd")[::2], 3, None, "text", [1]])
def test_what_is_not_contiguous_bytes_is_refused_by_name(bad: object) -> None:
    with pytest.raises(InvalidInput, match=r"`x`.*Fix:"):
        byte_view(bad, name="input `x`")  # type: ignore[arg-type]
