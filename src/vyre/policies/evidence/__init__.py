"""Decisions about evidence: which claims do measurements support?"""
