"""The domain: the language of programs, what computes on programs, and the values that every layer shares.

Its modules import only what stands below them.  Where a method of data calls a function above the data, such as
``Program.to_text`` the printer, this package states where the function stands; Python runs it before any module of it.
"""

from __future__ import annotations

from vyre.domain.lazy_names import place_functions

place_functions(
    {
        "indented_excerpt": "vyre.domain.excerpts.indented_excerpt",
        "python_place": "vyre.domain.ir.caller.python_place",
        "explained_error": "vyre.domain.ir.foreign_calls.explain",
        "Definition.digest": "vyre.domain.identity.definition_digest",
        "DispatchTiming._repr_html_": "vyre.domain.html.times.timing_view",
        "LaunchCosts._repr_html_": "vyre.domain.html.times.costs_view",
        "Program._repr_html_": "vyre.domain.html.programs.program_view",
        "Program.digest": "vyre.domain.identity.program_digest",
        "Program.from_json": "vyre.domain.ir.json_form.from_json",
        "Program.from_text": "vyre.domain.ir.text_parser.parse",
        "Program.from_wire": "vyre.domain.ir.wire.decode",
        "Program.to_json": "vyre.domain.ir.json_form.to_json",
        "Program.to_text": "vyre.domain.ir.text_printer.print_program",
        "Program.to_wire": "vyre.domain.ir.wire.encode",
        "Report._repr_html_": "vyre.domain.html.programs.report_view",
        "ScalarType.__call__": "vyre.domain.ir.value.literal",
    }
)
