"""Changes the modules of this folder at random, or makes functions of random jumps, and runs what comes out.

python fuzz_modules.py --count 5000 --seed 1
python fuzz_modules.py --count 5000 --seed 1 --jumps

A module may end in an error of this example or of vyre, each with its reason, or run and leave what
NumPy leaves.  Any other exception, and any other answer, is a defect, which is printed with the module.
"""

from __future__ import annotations

import argparse
import re
import sys
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Final

from checking import Runner, outcomes
from jumps import random_function

HERE: Final = Path(__file__).resolve().parent
TOKEN: Final = re.compile(r'"[^"]*"|[%@^#!]?[\w.$]+|\s+|->|.', re.S)
TYPES: Final = (
    "i1", "i8", "i16", "i32", "i64", "index", "f16", "bf16", "f32", "f64", "i4", "none", "vector<4xf32>",
    "tensor<4xi32>", "memref<4xf32>", "memref<?xi32>", "memref<f32>", "memref<*xf32>",
    "memref<2x?xi64, strided<[?, 1]>>",
)  # fmt: skip
OPERATIONS: Final = (
    "arith.addi", "arith.mulf", "arith.select", "arith.extui", "arith.maxf", "math.exp", "index.add", "memref.load",
    "memref.cast", "memref.collapse_shape", "memref.subview", "scf.if", "scf.while", "scf.parallel", "scf.index_switch",
    "cf.cond_br", "cf.switch", "func.call", "gpu.all_reduce", "gpu.shuffle", "gpu.launch_func", "vector.splat",
)  # fmt: skip
NUMBERS: Final = ("0", "1", "-1", "2", "3", "7", "255", "65536", "-2147483648", "9223372036854775807", "0.5", "true")


def changed(text: str, draw: Random) -> str:
    """Returns a text with one to three changes, most of which leave it well-formed."""
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        text = draw.choice(
            (_word, _word, _operation, _operation, _type, _type, _number, _number, _value, _attribute, _line)
        )(text, draw)
    return text


def _word(text: str, draw: Random) -> str:
    """Deletes, doubles or exchanges words, or cuts the text off."""
    words = TOKEN.findall(text)
    solid = [n for n, word in enumerate(words) if not word.isspace()]
    here, there = (draw.choice(solid) for _ in range(2)) if solid else (0, 0)
    match draw.randrange(5):
        case 0:
            del words[here : here + 1]
        case 1:
            words[here : here + 1] = words[there : there + 1]
        case 2:
            words[here:here] = words[there : there + 1]
        case 3:
            words[here : here + 1], words[there : there + 1] = words[there : there + 1], words[here : here + 1]
        case _:
            words = words[:here]
    return "".join(words)


def _replaced(text: str, draw: Random, pattern: str, by: Sequence[str]) -> str:
    """Replaces one match of a pattern, or all that are like it."""
    found = list(re.finditer(pattern, text))
    if not found or not by:
        return text
    one, new = draw.choice(found), draw.choice(by)
    if draw.randrange(2):
        return re.sub(rf"(?<![\w%]){re.escape(one[0])}(?!\w)", lambda _: new, text)
    return text[: one.start()] + new + text[one.end() :]


def _operation(text: str, draw: Random) -> str:
    names = re.findall(r'"[a-z]+\.[\w.]+"(?=\()', text)
    return _replaced(text, draw, r'"[a-z]+\.[\w.]+"(?=\()', names + [f'"{each}"' for each in OPERATIONS])


def _type(text: str, draw: Random) -> str:
    return _replaced(text, draw, r"\b(b?f\d+|i\d+|index)\b|(memref|vector)<[^<>]*>", TYPES)


def _number(text: str, draw: Random) -> str:
    return _replaced(text, draw, r"(?<![\w%^#])-?\d[\d.e+]*", NUMBERS)


def _value(text: str, draw: Random) -> str:
    return _replaced(text, draw, r"%\w+(#\d)?", re.findall(r"%\w+(?:#\d)?", text))


def _attribute(text: str, draw: Random) -> str:
    return _replaced(
        text, draw, r"\w+ = [^,{}<>]*(<[^<>]*>)?(, )?", ("", "value = unit, ", "value = [], ", 'op = "add", ')
    )


def _line(text: str, draw: Random) -> str:
    """Deletes, doubles or moves a line."""
    lines = text.splitlines(keepends=True) or [""]
    here = draw.randrange(len(lines))
    kept = lines[here] if draw.randrange(3) else ""
    if draw.randrange(3):
        del lines[here]
    lines.insert(draw.randrange(len(lines) + 1), kept)
    return "".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--jumps", action="store_true", help="functions of blocks that jump to one another, made at random"
    )
    parser.add_argument("--backends", nargs="+", default=["reference"])
    chosen = parser.parse_args()
    files = sorted((HERE / "modules").glob("*.mlir"))
    runner, draw = Runner(tuple(chosen.backends)), Random(chosen.seed)
    became, defects = Counter[str](), 0
    for number in range(chosen.count):
        file = files[number % len(files)]
        text = random_function(draw) if chosen.jumps else changed(file.read_text(), draw)
        name = "jumps.mlir" if chosen.jumps else file.name
        try:
            found = [(word, why) for _, word, why in outcomes(runner, text, name, "")]
        except Exception:
            found = [("different", traceback.format_exc(limit=-5))]
        became.update({word for word, _ in found} or {"empty"})
        for why in (why for word, why in found if word == "different"):
            defects += 1
            print(f"-- module {number}, {name}\n{text}\n{why}", flush=True)
        runner.cases.clear()
    runner.close()
    print(f"{chosen.count} modules, {defects} defects:", ", ".join(f"{n} {word}" for word, n in sorted(became.items())))
    return int(defects > 0)


if __name__ == "__main__":
    sys.exit(main())
