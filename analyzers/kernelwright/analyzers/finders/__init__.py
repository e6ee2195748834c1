"""Finders: detection that a definition cannot express (a constructor's keyword, training code, two layers of one input).

A rule file names one by `finder = "name"`; page, examples, tier and conditions stay in the rule file. Each module of this
folder holds the finders of one subject; `registry` is the closed list.
"""
