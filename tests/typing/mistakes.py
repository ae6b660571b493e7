"""Mistakes that type checkers find: a line with the comment ``refused`` is an error for mypy and pyright, no other is.

What stands in a kernel is a ``KernelSourceError`` of that line, too, where vyre builds the kernel.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

import vyre
from vyre import In, InOut, Kernel, Out, f32, f64, i32, u8, u32, u64


@vyre.kernel
def no_such_attribute(x: In[f32], y: InOut[f32]) -> None:
    i = vyre.global_id()
    y[i] = x[i].nope  # refused


@vyre.kernel
def no_such_attribute_of_a_result(x: In[f32], y: InOut[f32]) -> None:
    i = vyre.global_id()
    y[i] = (x[i] * 2 + y[i]).nope  # refused


@vyre.kernel
def no_such_attribute_of_an_array(x: In[f32], y: InOut[f32]) -> None:
    i = vyre.global_id()
    if i < x.size:  # refused
        y[i] = x[i]


@vyre.kernel
def method_of_floats(x: In[f32], y: InOut[f32]) -> None:
    i = vyre.global_id()
    if x[i].is_integer():  # refused
        y[i] = x[i]


@vyre.kernel
def stored_to_an_input(x: In[f32]) -> None:
    i = vyre.global_id()
    x[i] = 0.0  # refused


@vyre.kernel
def mixed_float_and_index(x: InOut[f32]) -> None:
    i = vyre.global_id()
    x[i] = x[i] * i  # refused


@vyre.kernel
def mixed_signs(n: i32, z: InOut[u32]) -> None:
    i = vyre.global_id()
    z[i] = i + n  # refused


@vyre.kernel
def mixed_widths(a: f64, y: InOut[f32]) -> None:
    i = vyre.global_id()
    y[i] += a  # refused


@vyre.kernel
def compared_across_types(x: In[f32], z: InOut[u32]) -> None:
    i = vyre.global_id()
    if x[i] < i:  # refused
        z[i] = 1


@vyre.kernel
def stored_as_another_type(y: InOut[f32]) -> None:
    i = vyre.global_id()
    y[i] = i  # refused


@vyre.kernel
def fraction_stored_to_integers(z: InOut[u32]) -> None:
    i = vyre.global_id()
    z[i] = 2.5  # refused


@vyre.kernel
def quotient_of_integers(z: InOut[u32]) -> None:
    i = vyre.global_id()
    z[i] = i / 2  # refused


@vyre.kernel
def number_stored_to_truths(x: In[f32], flags: InOut[vyre.bool_]) -> None:
    i = vyre.global_id()
    flags[i] = x[i]  # refused


@vyre.kernel
def bits_of_a_float(x: In[f32], y: InOut[f32]) -> None:
    i = vyre.global_id()
    y[i] = x[i] << 1  # refused


@vyre.kernel
def remainder_of_floats(x: In[f32], y: InOut[f32]) -> None:
    i = vyre.global_id()
    y[i] = x[i] % y[i]  # refused


@vyre.kernel
def index_of_a_fraction(x: In[f32], y: InOut[f32]) -> None:
    i = vyre.global_id()
    y[i] = x[x[i]]  # refused


@vyre.kernel
def text_as_an_index(x: In[f32], y: InOut[f32]) -> None:
    i = vyre.global_id()
    y[i] = x["i"]  # refused


@vyre.kernel
def one_index_for_two_axes(x: In[f32, Literal[2]], y: InOut[f32]) -> None:
    i = vyre.global_id()
    y[i] = x[i]  # refused


@vyre.kernel
def two_indices_for_one_axis(x: In[f32], y: InOut[f32]) -> None:
    i = vyre.global_id()
    y[i] = x[0, i]  # refused


@vyre.kernel
def two_axes_of_workgroup_memory(y: InOut[f32]) -> None:
    tile = vyre.workgroup_array(f32, (4, 4))
    y[0] = tile[0]  # refused


@vyre.kernel
def slice_of_an_array(x: In[f32], y: InOut[f32]) -> None:
    y[0] = x[1:3]  # refused


@vyre.kernel
def loop_over_an_array(x: In[f32], y: InOut[f32]) -> None:
    for v in x:  # refused
        y[0] += v


@vyre.kernel
def search_in_an_array(x: In[f32], y: InOut[f32]) -> None:
    if 0.5 in x:  # refused
        y[0] = 1.0


@vyre.kernel
def length_of_a_number(x: In[f32], y: InOut[f32]) -> None:
    y[0] = len(x[0])  # refused


@vyre.kernel
def range_of_a_fraction(x: In[f32], y: InOut[f32]) -> None:
    for k in range(x[0]):  # refused
        y[k] = 1.0


@vyre.kernel
def called_number(x: In[f32], y: InOut[f32]) -> None:
    y[0] = x[0]()  # refused


@vyre.kernel
def atomic_of_floats(y: InOut[f32]) -> None:
    y.atomic_add(0, 1.0)  # refused


@vyre.kernel
def atomic_of_an_input(z: In[u32]) -> None:
    z.atomic_add(0, 1)  # refused


@vyre.kernel
def atomic_of_another_type(x: In[f32], z: InOut[u32]) -> None:
    z.atomic_add(0, x[0])  # refused


@vyre.kernel
def no_such_function(x: In[f32], y: InOut[f32]) -> None:
    y[0] = vyre.sinus(x[0])  # refused


@vyre.kernel
def sine_of_an_integer(z: In[u32], y: InOut[f32]) -> None:
    y[0] = vyre.sin(z[0])  # refused


@vyre.kernel
def smaller_of_two_types(a: f32, n: u32, y: InOut[f32]) -> None:
    y[0] = vyre.min_(a, n)  # refused


@vyre.kernel
def sine_of_an_array(x: In[f32], y: InOut[f32]) -> None:
    y[0] = vyre.sin(x)  # refused


@vyre.kernel
def conversion_of_an_array(x: In[f32], y: InOut[f32]) -> None:
    y[0] = f32(x)  # refused


@vyre.kernel
def cast_to_a_text(x: In[f32], z: InOut[u32]) -> None:
    z[0] = x[0].cast("u32")  # refused


@vyre.function
def halved(x: f32) -> f32:
    return x * 0.5


@vyre.kernel
def helper_given_another_type(z: In[u32], y: InOut[f32]) -> None:
    y[0] = halved(z[0])  # refused


@vyre.kernel
def helper_given_too_much(x: In[f32], y: InOut[f32]) -> None:
    y[0] = halved(x[0], 1)  # refused


@vyre.kernel
def missing_operand(wide: In[u64], narrow: In[u8], z: InOut[u32]) -> None:
    z[0] = vyre.fma(1.0)  # refused


@vyre.kernel
def array_stored(x: In[f32], y: Out[f32]) -> None:
    y[0] = x  # refused


def called_wrongly(one: Kernel[[In[f32], Out[f32]]], xs: np.ndarray[tuple[int], np.dtype[np.float32]]) -> None:
    one("xs.npy", xs)  # refused
    one.run(xs)  # refused
    one["8"](xs)  # refused
    one.over(2.5)(xs)  # refused
    vyre.kernel(one.program)  # refused
