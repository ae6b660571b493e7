"""Decisions about fusion: which kernels and pipeline stages become one launch?"""
