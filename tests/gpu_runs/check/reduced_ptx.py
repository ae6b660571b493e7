"""Small PTX modules around the bodies of the table of hazards."""

from __future__ import annotations


def reduced_ptx(entry: str, body: str, version: str, target: str) -> str:
    """Returns a PTX module around a body of the table.

    The body finds ``n`` in ``%r0`` and in the word at ``%rd0``, the opaque zero in ``%r1`` and the lane's number in
    ``%r2``.  The value in ``%r9`` at its end is stored in that word, unless the body branches to ``$END``.  The
    parameters of the entry are the address of the word, n, and zero.
    """
    return "\n".join(
        (
            f".version {version}",
            f".target {target}",
            ".address_size 64",
            f".visible .entry {entry}(.param .u64 out, .param .u32 n, .param .u32 zero)",
            "{",
            "\t.reg .pred %p<4>;",
            "\t.reg .b32 %r<10>;",
            "\t.reg .b64 %rd<4>;",
            "\tld.param.u64 %rd0, [out];",
            "\tcvta.to.global.u64 %rd0, %rd0;",
            "\tld.param.u32 %r0, [n];",
            "\tld.param.u32 %r1, [zero];",
            "\tmov.u32 %r2, %tid.x;",
            *(f"\t{line}" for line in body.strip().splitlines()),
            "\tst.global.u32 [%rd0], %r9;",
            "$END:",
            "\tret;",
            "}",
            "",
        )
    )
