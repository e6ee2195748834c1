"""The architecture language: a small typed language of tensor programs with a textual form."""

from kernelwright.analyzers.architecture.node import Attribute, Layer, Node, Program, Span
from kernelwright.analyzers.architecture.text import ProgramSyntaxError, parse_program, print_program

__all__ = [
    "Attribute",
    "Layer",
    "Node",
    "Program",
    "ProgramSyntaxError",
    "Span",
    "parse_program",
    "print_program",
]
