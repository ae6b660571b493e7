"""Blur of a grey picture: the mean of the pixels in a square around each pixel, read through 2-D views."""

from __future__ import annotations

import numpy as np

import vyre
from vyre import DispatchConfig, In, Out, Program, i32, like, u8
from vyre.gallery.example import Array, Case, Dispatcher, Example, Inputs, answered_by, random_u32

RADIUS = 2


@vyre.kernel(workgroup=(16, 8))
def blur(picture: In[u8, 2], blurred: Out[u8, 2, like("picture")]) -> None:
    """Each lane computes one pixel; pixels outside the picture do not count."""
    x, y = i32(vyre.global_id(0)), i32(vyre.global_id(1))
    height, width = i32(picture.shape[0]), i32(picture.shape[1])
    total, count = 0, 0
    for down in range(-RADIUS, RADIUS + 1):
        for right in range(-RADIUS, RADIUS + 1):
            row, column = y + down, x + right
            if 0 <= row < height and 0 <= column < width:
                total += picture[row, column]
                count += 1
    blurred[y, x] = (total + count // 2) // count


def blur_picture(session: Dispatcher, program: Program, picture: Array) -> Array:
    """Returns the blurred picture (u8, height x width)."""
    height, width = picture.shape
    inputs: Inputs = {"picture": picture, "picture_width": width, "blurred_width": width}
    return session.dispatch(program, inputs, DispatchConfig(extent=(width, height)))["blurred"]


def blur_by_numpy(picture: Array) -> Array:
    """Returns the same picture from NumPy, with shifted arrays."""

    def squares(pixels: Array) -> Array:
        padded = np.pad(pixels, RADIUS)
        height, width = pixels.shape
        side = range(2 * RADIUS + 1)
        shifted = [padded[down : down + height, right : right + width] for down in side for right in side]
        total: Array = np.sum(shifted, axis=0)
        return total

    count = squares(np.ones(picture.shape, np.int64))
    blurred: Array = ((squares(picture.astype(np.int64)) + count // 2) // count).astype(np.uint8)
    return blurred


def case() -> Case:
    """Returns a random picture, and the blurred one from NumPy."""
    picture = (random_u32(61, 53 * 38) >> 24).astype(np.uint8).reshape(38, 53)
    return Case({"picture": picture}, {"blurred": blur_by_numpy(picture)})


EXAMPLE = Example(
    "blur", "blur of a picture through 2-D views", blur, case, "NumPy", answered_by(blur_picture, "blurred")
)
