"""Bundles: programs compiled ahead of time, as one file that runs without a compiler.

``builder`` and ``emitters`` make them; the other modules load and run them and know neither the emitter, nor the
language of programs, nor the validator.
"""
