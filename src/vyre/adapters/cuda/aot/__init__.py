"""The code of CUDA devices in bundles: how it is made, written, chosen, and run without a compiler.

``emitters`` makes the code; the other modules import neither the emitter, nor the language of programs, nor the
validator.
"""
