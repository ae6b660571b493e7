"""Checks any backend against the reference and writes what it found into a certificate that others can verify.

``vyre conform`` is the command; ``cases`` makes the cases, ``judging`` runs one, ``campaign`` runs as many as a budget
allows, ``certificate`` is the written form and ``verification`` computes it again.
"""
