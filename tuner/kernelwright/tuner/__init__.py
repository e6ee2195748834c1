"""Runs, checks and times the programs of workloads.

What the server imports needs no torch: `client`, `records`, `predict`, `devices`, `evidence`, `evidence_script`.
"""
