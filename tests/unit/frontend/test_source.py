"""Errors underline the user's source, wherever Python keeps it; elsewhere an error says what to do."""

from __future__ import annotations

import ast
import copy
import importlib
import linecache
import pickle
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import vyre
from support.limits import LIMIT_S
from vyre import InOut, KernelSourceError, f32

HEAD = "import vyre\nfrom vyre import In, InOut, Out, Static, f32, i32, u32\n"
_MADE: list[ModuleType] = []


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes a module and imports it; the text may be bytes."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(text: str | bytes) -> ModuleType:
        name = f"kernel_module_{len(_MADE)}"
        content = text if isinstance(text, bytes) else (HEAD + text).encode()
        (tmp_path / f"{name}.py").write_bytes(content)
        importlib.invalidate_caches()
        made = importlib.import_module(name)
        _MADE.append(made)
        return made

    return make


def failure(kernel: Any) -> tuple[int, str]:
    """The line and the underlined excerpt of the error that the program of a kernel gets."""
    with pytest.raises(KernelSourceError) as caught:
        kernel.program  # noqa: B018
    assert caught.value.loc is not None
    assert str(caught.value).endswith(caught.value.excerpt)
    return caught.value.loc.line, caught.value.excerpt


def test_the_expression_at_fault_is_underlined(module: Any) -> None:
    made = module("""
@vyre.kernel
def k(x: InOut[f32]):
    x[0] = x[0] + (x[1] // 2)
""")
    assert failure(made.k) == (6, "        x[0] = x[0] + (x[1] // 2)\n                       ^^^^^^^^^")


def test_several_decorators_and_one_over_lines_stand_before_the_function(module: Any) -> None:
    made = module("""
def plain(f):
    return f

@vyre.kernel(
    workgroup=(
        64
    ),
)
@plain
@plain
def k(x: InOut[f32]):
    x[0] = nothing
""")
    line, excerpt = failure(made.k)
    assert line == 15
    assert excerpt == "        x[0] = nothing\n               ^^^^^^^"


def test_functions_of_classes_and_functions_lose_their_indentation(module: Any) -> None:
    made = module('''
class Holder:
    def make(self):
        @vyre.kernel
        def k(x: InOut[f32]):
            """Does nothing
of use."""
# a comment at the margin
            x[0] = nothing
        return k

k = Holder().make()
''')
    assert failure(made.k) == (11, "        x[0] = nothing\n               ^^^^^^^")


def test_tabs_stay_tabs(module: Any) -> None:
    made = module("if True:\n\t@vyre.kernel\n\tdef k(x: InOut[f32]):\n\t\tx[0]\t= nothing\n")
    assert failure(made.k) == (6, "    \tx[0]\t= nothing\n    \t    \t  ^^^^^^^")


def test_wide_and_combining_characters_before_the_mark_count_as_columns(module: Any) -> None:
    made = module("""
变 = 3
e\u0301 = 4

@vyre.kernel
def k(x: InOut[i32]):
    x[0] = 变 + nothing
    x[0] = e\u0301 + nothing
""")
    line, excerpt = failure(made.k)
    assert (line, excerpt) == (9, f"        x[0] = 变 + nothing\n{' ' * 20}^^^^^^^")


def test_an_accent_of_its_own_takes_no_column(module: Any) -> None:
    made = module("""
e\u0301 = 4

@vyre.kernel
def k(x: InOut[i32]):
    x[0] = e\u0301 + nothing
""")
    assert failure(made.k)[1].splitlines()[1] == " " * 19 + "^^^^^^^"


def test_an_expression_over_lines_is_underlined_to_the_end_of_its_first_line(module: Any) -> None:
    made = module("""
@vyre.kernel
def k(x: InOut[f32]):
    x[0] = 1.0 + \\
        x[1] // \\
        2.0
""")
    assert failure(made.k) == (7, "            x[1] // \\\n            ^^^^^^^^^")


def test_long_lines_are_shown_around_the_mark(module: Any) -> None:
    added = " + ".join(["x[0]"] * 60)
    made = module(f"\n@vyre.kernel\ndef k(x: InOut[f32]):\n    x[0] = {added} + nothing + {added}\n")
    shown, mark = failure(made.k)[1].splitlines()
    assert len(shown) < 140
    assert shown.startswith("    ...") and shown.endswith("...")
    assert shown[mark.index("^") : mark.rindex("^") + 1] == "nothing"


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_line_ends_and_byte_order_marks_do_not_matter(module: Any, ending: str, mark: bytes) -> None:
    text = HEAD + "@vyre.kernel\ndef k(x: InOut[f32]):\n\n    x[0] = nothing\n"
    made = module(mark + text.replace("\n", ending).encode())
    assert failure(made.k) == (6, "        x[0] = nothing\n               ^^^^^^^")


def test_a_form_feed_is_no_end_of_a_line(module: Any) -> None:
    made = module("@vyre.kernel\ndef k(x: InOut[f32]):\n    '''a\x0cb\u2028c'''\n    x[0] = nothing\n")
    assert failure(made.k)[0] == 6
    assert "x[0] = nothing" in failure(made.k)[1]


def test_the_last_branch_counts_though_it_makes_no_code(module: Any) -> None:
    made = module("""
@vyre.kernel
def k(x: InOut[f32]):
    if x[0] > 0:
        x[0] = 1
    else:
        "nothing to do"
        # and a comment

after = 1
""")
    assert made.k.definition.source.lines[-1].strip() in ("", "# and a comment")
    assert made.k.program.body


def test_a_reloaded_module_has_its_new_source(module: Any) -> None:
    made = module("@vyre.kernel\ndef k(x: InOut[f32]):\n    x[0] = nothing\n")
    assert "nothing" in failure(made.k)[1]
    path = Path(made.__file__ or "")
    path.write_text(HEAD + "# moved\n\n@vyre.kernel\ndef k(x: InOut[f32]):\n    x[0] = nowhere + 100\n")
    importlib.invalidate_caches()
    assert failure(importlib.reload(made).k) == (7, "        x[0] = nowhere + 100\n               ^^^^^^^")


def test_a_source_that_changed_after_the_import_is_noticed(module: Any) -> None:
    made = module("def k(x: InOut[f32]):\n    x[0] = 1\n")
    Path(made.__file__ or "").write_text("# all is gone\n" * 9)
    with pytest.raises(KernelSourceError, match=r"the source of `k` has changed since .* Fix: run the program"):
        vyre.kernel(made.k)


NESTED = """
def make():
    @vyre.kernel
    def k(x: InOut[f32]):
        t: f32 = 2
        x[0] = x[0] * t
    return k

def other():
    @vyre.function
    def k(x):
        return x[0] * 5
    return k

def private():
    class Owner:
        @staticmethod
        def of(n):
            @vyre.kernel
            def k(x: InOut[f32]):
                __t = x[0] + n
                x[0] = __t
            return k
    return Owner.of(3)
"""


@pytest.mark.parametrize(
    ("old", "new", "maker"),
    [
        ("x[0] * t", "x[0] / t", "make"),
        ("t: f32 = 2", "t: f32 = 2.0", "make"),
        ("t: f32 = 2", "t: bool_ = 2", "make"),
        ("* 5", "* 6", "other"),
        ("def make", "\n\n\n\n\n\ndef make", "other"),
        ("class Owner", "class Other", "private"),
        ("+ n", "- n", "private"),
        ("return k", "return (k", "make"),
    ],
)
def test_the_text_of_a_kernel_is_that_of_what_python_runs(module: Any, old: str, new: str, maker: str) -> None:
    made = module(NESTED)
    path = Path(made.__file__ or "")
    text = path.read_text()
    assert getattr(made, maker)()
    path.write_text(text.replace(old, new))
    with pytest.raises(KernelSourceError, match="the source of `k` has changed since the function was made"):
        getattr(made, maker)()
    path.write_text(text + "\n# more at the end\n")
    assert getattr(made, maker)()


def test_a_cell_whose_statements_are_compiled_one_by_one_is_known() -> None:
    name = "<cell of statements>"
    text = HEAD + "class C:\n    @vyre.kernel\n    def k(x: InOut[f32]):\n        x[vyre.global_id()] = 1\n"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names: dict[str, Any] = {"__name__": "__main__"}
    for one in ast.parse(text).body:
        exec(compile(ast.Module([one], []), name, "exec"), names)
    assert names["C"].k.program
    exec(compile(text.replace("class C", "class D"), name, "exec"), names)
    assert names["D"].k.program


def test_a_cell_that_another_one_of_its_name_replaced_is_noticed() -> None:
    name, text = "<cell of two texts>", HEAD + "def k(x: InOut[f32]):\n    x[0] = 1\n"
    other = text.replace("= 1", "= 2")
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text, name, "exec"), names)
    linecache.cache[name] = (len(other), None, other.splitlines(keepends=True), name)
    with pytest.raises(KernelSourceError, match="has changed since"):
        vyre.kernel(names["k"])
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    assert vyre.kernel(names["k"]).program


def test_code_that_was_made_by_hand_is_noticed(module: Any) -> None:
    made = module("def k(x: InOut[f32]):\n    x[0] = 2.5\n")
    made.k.__code__ = made.k.__code__.replace(co_consts=(None, 3.5, 0))
    with pytest.raises(KernelSourceError, match="has changed since"):
        vyre.kernel(made.k)


def test_a_module_without_its_text_is_refused(module: Any) -> None:
    made = module("def k(x: InOut[f32]):\n    x[0] = 2.5\n")
    Path(made.__file__ or "").unlink()
    with pytest.raises(KernelSourceError, match="keeps no source of `k`"):
        vyre.kernel(made.k)


def test_an_error_in_a_function_has_the_line_of_the_function(module: Any) -> None:
    made = module("""
@vyre.function
def half(v):
    return v // 2

@vyre.kernel
def k(x: InOut[f32]):
    x[0] = half(x[0])
""")
    assert failure(made.k) == (6, "        return v // 2\n               ^^^^^^")


BARRIERS = """
@vyre.function
def wait(n: u32):
    if n < 3:
        vyre.barrier()

@vyre.kernel
def outer(x: InOut[f32]):
    count = 1
    if x[vyre.global_id()] > 0.0:
        count += 1; vyre.barrier(); count += 2
    x[0] = f32(count)

@vyre.kernel
def inner(x: InOut[f32], n: Static[int]):
    for _ in vyre.static(range(n)):
        wait(vyre.global_id())
"""


@pytest.mark.parametrize(
    ("name", "statics", "line", "excerpt"),
    [
        ("outer", {}, 13, f"{' ' * 12}count += 1; vyre.barrier(); count += 2\n{' ' * 24}{'^' * 14}"),
        ("inner", {"n": 2}, 7, f"{' ' * 12}vyre.barrier()\n{' ' * 12}{'^' * 14}"),
    ],
)
def test_what_the_validator_refuses_is_underlined(
    module: Any, name: str, statics: dict[str, int], line: int, excerpt: str
) -> None:
    made = getattr(module(BARRIERS), name)
    with pytest.raises(vyre.InvalidProgram) as caught:
        made.specialize(**statics)
    error = caught.value
    assert error.excerpt == excerpt
    assert str(error).endswith(f"Fix: {error.fix}\n{excerpt}")
    assert error.report is not None
    assert error.report.errors[0].loc is not None
    assert error.report.errors[0].loc.line == line
    restored = pickle.loads(pickle.dumps(error))
    assert (str(restored), restored.excerpt) == (str(error), excerpt)


def test_the_program_names_the_lines_of_kernel_and_function(module: Any) -> None:
    made = module("""
@vyre.function
def twice(v):
    w = v * 2
    return w + 1

@vyre.kernel
def k(x: InOut[f32]):
    a = twice(x[0])
    x[0] = a
""")
    lines = [stmt.loc.line for stmt in made.k.program.body if stmt.loc is not None]
    assert lines == [11, 6, 11, 12]


def test_postponed_annotations_and_types_local_to_a_function(module: Any) -> None:
    made = module(b"""from __future__ import annotations
import vyre

def make():
    from vyre import InOut as Written, f32, i32
    real = f32

    @vyre.function
    def shifted(v: real, by: i32 = 1):
        return v + vyre.f32(by)

    @vyre.kernel
    def k(x: Written[real], a: real):
        y: real = 2
        x[0] = shifted(x[0], 3) * y + a
    return k

k = make()
""")
    assert [buffer.element for buffer in made.k.program.buffers] == [f32, f32]


def test_an_annotation_that_means_nothing_is_named(module: Any) -> None:
    with pytest.raises(KernelSourceError, match="the annotation `f31` cannot be read: name 'f31' is not defined"):
        module(b"from __future__ import annotations\nimport vyre\n@vyre.kernel\ndef k(a: f31): pass\n")
    made = module(b"""from __future__ import annotations
import vyre
from vyre import InOut, f32

@vyre.function
def f(a: nothing): return a

@vyre.kernel
def k(x: InOut[f32]):
    x[0] = f(x[0])
""")
    line, excerpt = failure(made.k)
    assert line == 6 and excerpt.endswith("^^^^^^^")


# ---------------------------------------------------------------- where Python keeps no file
def test_cells_of_notebooks_are_underlined() -> None:
    name = "/tmp/ipykernel_1/1234567.py"
    text = HEAD + "\n@vyre.kernel\ndef k(x: InOut[f32]):\n    x[0] = nothing\n"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text, name, "exec"), names)
    assert failure(names["k"]) == (6, "        x[0] = nothing\n               ^^^^^^^")


def test_without_source_the_error_says_what_to_do() -> None:
    text = HEAD + "\n@vyre.kernel\ndef k(x: InOut[f32]):\n    x[0] = 1\n"
    with pytest.raises(KernelSourceError) as caught:
        exec(compile(text, "<string>", "exec"), {"__name__": "__main__"})
    assert str(caught.value) == (
        "<string>:4: Python keeps no source of `k`, from which its kernel is made. Fix: write the function in a file, "
        "in a notebook, or in the interactive interpreter of CPython 3.13 or later; exec(), standard input, and "
        "`python -c` and the interpreter of older versions keep no source."
    )


def test_python_c_and_the_interpreter_say_it_too() -> None:
    text = "import vyre\nfrom vyre import InOut, f32\n@vyre.kernel\ndef k(x: InOut[f32]):\n    x[0] = nothing\n"
    told = "keeps no source of `k`"
    if sys.version_info < (3, 13):
        ran = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=LIMIT_S)
        assert ran.returncode == 1 and told in ran.stderr
    asked = text + "\nk.program\n"
    ran = subprocess.run([sys.executable, "-i", "-q"], input=asked, capture_output=True, text=True, timeout=LIMIT_S)
    if sys.version_info < (3, 13):
        assert told in ran.stderr
    else:
        assert "    x[0] = nothing\n" in ran.stderr and "^^^^^^^" in ran.stderr


def test_lambdas_and_coroutines_are_no_kernels() -> None:
    with pytest.raises(
        KernelSourceError, match=r"a lambda cannot become a kernel\. Fix: write it as `def name\(\): \.\.\.`"
    ):
        vyre.kernel(lambda: None)
    with pytest.raises(KernelSourceError, match=r"the coroutine `later` cannot become a kernel"):

        @vyre.kernel
        async def later(x: InOut[f32]) -> None:
            x[0] = 1


def test_annotations_mean_what_they_do_where_the_function_is_defined(module: Any) -> None:
    defined = module('number = f32\ndef k(x: "InOut[number]"):\n    x[0] = 1\n')
    decorated = module(f"from {defined.__name__} import k\nnumber = i32\nk = vyre.kernel(k)\n")
    assert decorated.k.program.buffers[0].element is f32


def test_the_traceback_of_an_error_does_not_show_the_walk_over_the_source(module: Any) -> None:
    made = module("@vyre.kernel\ndef k(x: InOut[f32]):\n    x[0] = (x[0] + (x[1] * (x[2] - nothing)))\n")
    with pytest.raises(KernelSourceError, match="nothing") as caught:
        made.k.program  # noqa: B018
    ours = [entry.name for entry in caught.traceback if "domain" in Path(entry.path).parts]
    assert ours == ["specialized"]
    assert caught.value.__cause__ is None and caught.value.__suppress_context__


def test_kernels_and_functions_are_pickled_and_copied_by_name(module: Any) -> None:
    made = module(
        "@vyre.function\ndef f(x):\n    return x\n\n@vyre.kernel\ndef k(x: InOut[f32]):\n    x[0] = f(x[1])\n"
    )
    for held in (made.f, made.k):
        assert pickle.loads(pickle.dumps(held)) is held
        assert copy.deepcopy({"held": held})["held"] is held
