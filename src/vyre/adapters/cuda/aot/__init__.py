"""Code of CUDA devices in bundles: how it is made, written, chosen and run without a compiler.

``emitters`` makes it; the other modules know neither the emitter, nor the language of programs, nor the validator.
"""
