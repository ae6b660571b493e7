"""Bundles as files, whatever devices their code is for.

``builder`` makes bundles; the other modules write and read them and know neither an emitter, nor the language of
programs, nor the validator.
"""
