"""Bundles as files, independent of the devices that their code is for.

``builder`` makes bundles; the other modules write and read them and import neither an emitter, nor the language of
programs, nor the validator.
"""
