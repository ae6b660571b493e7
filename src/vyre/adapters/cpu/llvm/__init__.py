"""The translation of programs to LLVM IR text; it needs no LLVM."""
