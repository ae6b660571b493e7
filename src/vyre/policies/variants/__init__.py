"""Decisions about variants: which variant of an algorithm, a kernel or a set of passes is used?"""
