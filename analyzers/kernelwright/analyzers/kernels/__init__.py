"""What each kernel computes: reference definitions, one file a kernel library. Parsed by the front end, never executed.

Kept apart from the rules on purpose: a rule is checked against these, so a wrong rule cannot yield a wrong fix.
"""
