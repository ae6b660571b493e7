"""Trains a perceptron with two layers on pictures of digits: with tinygrad on vyre, and again with NumPy.

    python mlp.py [--epochs N] [--device VYRE]

Both begin with the same weights and see the same batches, so that their losses must agree but for rounding.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
import vyre_device

vyre_device.register()

from tinygrad import Device, Tensor, TinyJit, nn  # noqa: E402

Array = Any
BATCH, HIDDEN, RATE = 128, 128, 0.5


class Digits(NamedTuple):
    """Pictures of 8 x 8 pixels in 0..1 as f32 of shape (n, 64), the digits on them as i32 of (n,), and their origin."""

    pictures: Array
    labels: Array
    origin: str


def digits() -> Digits:
    """Returns the digits of scikit-learn; without it drawn ones: a fixed pattern for each digit, with noise."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        rng = np.random.default_rng(0)
        labels = rng.integers(0, 10, 1792, dtype=np.int32)
        pictures = rng.random((10, 64))[labels] + rng.normal(0, 0.3, (len(labels), 64))
        return Digits(pictures.clip(0, 1).astype(np.float32), labels, "drawn patterns (scikit-learn is not installed)")
    pictures, labels = load_digits(return_X_y=True)
    return Digits((pictures / 16).astype(np.float32), labels.astype(np.int32), "the digits of scikit-learn")


def weights() -> list[Array]:
    """Returns the first weights of both layers, and their offsets, by which both sides begin."""
    rng = np.random.default_rng(1)
    layers = []
    for rows, columns in ((64, HIDDEN), (HIDDEN, 10)):
        layers += [(rng.normal(0, rows**-0.5, (rows, columns))).astype(np.float32), np.zeros(columns, np.float32)]
    return layers


def batches(data: Digits) -> list[tuple[Array, Array]]:
    """Returns the batches of an epoch, the same in each; a last one that is not full is left out."""
    ends = range(BATCH, len(data.labels) + 1, BATCH)
    return [(data.pictures[end - BATCH : end], data.labels[end - BATCH : end]) for end in ends]


def with_tinygrad(data: Digits, epochs: int, device: str) -> Iterator[float]:
    """Trains, and yields the mean loss of each epoch."""
    layers = [Tensor(w, device=device, requires_grad=True) for w in weights()]
    optimizer = nn.optim.SGD(layers, lr=RATE)

    @TinyJit
    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = (x.linear(*layers[:2]).relu().linear(*layers[2:])).sparse_categorical_crossentropy(y).backward()
        return loss.realize(*optimizer.schedule_step())

    there = [(Tensor(x, device=device).realize(), Tensor(y, device=device).realize()) for x, y in batches(data)]
    with Tensor.train():
        for _ in range(epochs):
            yield float(np.mean([step(x, y).item() for x, y in there]))


def with_numpy(data: Digits, epochs: int) -> Iterator[float]:
    """Does the same in NumPy, with the derivatives written out."""
    w1, b1, w2, b2 = weights()
    rows = np.arange(BATCH)
    for _ in range(epochs):
        losses = []
        for x, y in batches(data):
            hidden = np.maximum(x @ w1 + b1, 0)
            scores = hidden @ w2 + b2
            scores -= scores.max(1, keepdims=True)
            chances = np.exp(scores)
            chances /= chances.sum(1, keepdims=True)
            losses.append(-np.log(chances[rows, y]).mean())
            chances[rows, y] -= 1
            of_scores = chances / BATCH
            of_hidden = (of_scores @ w2.T) * (hidden > 0)
            for w, gradient in (
                (w1, x.T @ of_hidden),
                (b1, of_hidden.sum(0)),
                (w2, hidden.T @ of_scores),
                (b2, of_scores.sum(0)),
            ):
                w -= np.float32(RATE) * gradient
        yield float(np.mean(losses))


def described(device: str) -> str:
    """Returns a device in words, such as ``VYRE on cpu``."""
    opened = Device[device]
    return f"{device} on {opened.session.backend}" if isinstance(opened, vyre_device.VyreDevice) else device


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--device", default="VYRE")
    chosen = parser.parse_args()
    data = digits()
    print(f"{len(data.labels)} pictures: {data.origin}. {described(chosen.device)}")
    largest = 0.0
    for epoch, (ours, theirs) in enumerate(
        zip(with_tinygrad(data, chosen.epochs, chosen.device), with_numpy(data, chosen.epochs), strict=True)
    ):
        largest = max(largest, abs(ours - theirs) / theirs)
        print(f"epoch {epoch:2}: loss {ours:.6f}, in NumPy {theirs:.6f}")
    print(f"The losses differ by at most {largest:.1e} of their value.")
    return int(largest > 1e-3)


if __name__ == "__main__":
    sys.exit(main())
