"""The native backend for the CPU of this machine: LLVM IR with explicit vectors, compiled once and run on threads."""
