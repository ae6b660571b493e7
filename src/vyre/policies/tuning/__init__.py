"""Decisions about tuning: which candidates to measure, and when is one certainly faster?"""
