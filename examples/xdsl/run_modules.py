"""Runs MLIR modules on vyre and compares all that they leave in memory with NumPy.

python run_modules.py                      # the modules of this folder
python run_modules.py --tests CHECKOUT     # what MLIR's own tests have, by way of mlir-opt
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from checking import Runner, outcomes

HERE: Final = Path(__file__).resolve().parent
BACKENDS: Final = ("reference", "cpu", "cuda-machine")
FOLDERS: Final = (
    "Integration/GPU", "Integration/Dialect/Arith", "Integration/Dialect/Memref", "Integration/Dialect/Standard",
    "mlir-cpu-runner", "mlir-vulkan-runner", "mlir-spirv-cpu-runner", "Dialect/Arith", "Dialect/Math", "Dialect/SCF",
    "Dialect/MemRef", "Dialect/GPU", "Dialect/Func", "Dialect/Affine", "Dialect/Index", "Conversion", "Transforms",
)  # fmt: skip
"""The folders of ``mlir/test`` in which modules of the dialects are."""
MLIR_OPT: Final = ("mlir-opt-16", "mlir-opt")
PASSES: Final = ("--allow-unregistered-dialect", "-lower-affine", "-gpu-kernel-outlining", "--mlir-print-op-generic")
WORDS: Final = ("equal", "refused", "undefined", "unreadable", "different")
"""The outcomes that a function can have."""


def generic(text: str) -> str | None:
    """Returns a module in the generic form as ``mlir-opt`` writes it, or None if it does not take the text."""
    tool = next(filter(None, map(shutil.which, MLIR_OPT)), None)
    if tool is None:
        raise SystemExit("there is no mlir-opt. Fix: apt-get install mlir-16-tools.")
    done = subprocess.run([tool, *PASSES], input=text, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout if done.returncode == 0 else None


def tests_of(checkout: Path) -> Iterator[tuple[str, str]]:
    """Yields the parts of all files of MLIR's tests with their names."""
    root = next(
        (each for each in (checkout / "mlir" / "test", checkout / "test", checkout) if (each / "Dialect").is_dir()),
        None,
    )
    if root is None:
        raise SystemExit(f"{checkout} has no MLIR tests. Fix: pass a checkout of llvm-project, with mlir/test in it.")
    for folder in FOLDERS:
        for file in sorted((root / folder).rglob("*.mlir")):
            parts = re.split(r"^// -----.*$", file.read_text("utf-8", "replace"), flags=re.M)
            for number, part in enumerate(parts):
                yield f"{file.relative_to(root).with_suffix('')}.{number}", part


def table(recorded: dict[str, Any]) -> str:
    """Returns the counts of a record as a table in Markdown."""
    columns = ("modules", "with a function that ran equal", *(f"functions {word}" for word in WORDS))
    rows = [["folder of `mlir/test`", *columns], ["---"] * (len(columns) + 1)]
    rows += [[f"`{name}`", *(str(row.get(each, 0)) for each in columns)] for name, row in recorded["folders"].items()]
    total = [sum(row.get(each, 0) for row in recorded["folders"].values()) for each in columns]
    return "".join(f"| {' | '.join(row)} |\n" for row in [*rows, ["together", *map(str, total)]])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("files", nargs="*", type=Path, default=sorted((HERE / "modules").glob("*.mlir")))
    parser.add_argument("--tests", type=Path)
    parser.add_argument("--only", nargs="+", default=[""])
    parser.add_argument("--backends", nargs="+", default=BACKENDS)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--cases", type=Path)
    chosen = parser.parse_args()
    runner = Runner(tuple(chosen.backends))
    sources = [(file.name, file.read_text()) for file in chosen.files]
    if chosen.tests:
        tests = [test for test in tests_of(chosen.tests) if any(part in test[0] for part in chosen.only)]
        sources = ([] if chosen.cases is None else sources) + tests
    folders: dict[str, Counter[str]] = {}
    reasons, different = Counter[str](), []
    for name, text in sources:
        folder = next((each for each in FOLDERS if name.startswith(f"{each}/")), "modules")
        counts = folders.setdefault(folder, Counter())
        form = generic(text) if folder != "modules" else text
        counts["modules"] += 1
        if form is None:
            reasons["modules that mlir-opt refuses or expects errors of"] += 1
            continue
        words = set()
        for label, became, why in outcomes(runner, form, name, text):
            counts[f"functions {became}"] += 1
            words.add(became)
            if became == "different":
                different.append(f"{label}: {why}")
            elif why:
                reasons[f"{became}: {why}"] += 1
            if became == "different" or not chosen.tests:
                print(f"{label}: {became} {why}".rstrip(), flush=True)
        counts["with a function that ran equal"] += "equal" in words
    runner.close()
    if chosen.cases:
        runner.record(chosen.cases)
    listed = {name: dict(counts) for name, counts in folders.items() if not chosen.tests or name != "modules"}
    functions = {word: sum(counts.get(f"functions {word}", 0) for counts in listed.values()) for word in WORDS}
    recorded = {
        "xdsl": version("xdsl"),
        "backends": list(chosen.backends),
        "functions": functions,
        "folders": listed,
        "reasons": dict(reasons.most_common()),
        "different": different,
    }
    if chosen.record:
        chosen.record.write_text(json.dumps(recorded, indent=1) + "\n")
    print(table(recorded) + "".join(f"{count:6} {reason}\n" for reason, count in reasons.most_common(30)))
    return int(bool(different))


if __name__ == "__main__":
    sys.exit(main())
