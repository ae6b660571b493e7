"""Kernels to read, copy from and run: each file holds one, with inputs and an independent check.

``basics`` has 26 small programs, one language feature each; ``applications`` has whole algorithms. ``python -m
vyre.gallery`` runs and checks them all.
"""
