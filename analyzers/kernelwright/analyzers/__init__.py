"""Pure analysis of PyTorch model files: text in, frozen data out.

Imports neither torch nor tvm nor an LSP type, and never runs the analysed code.
Start at `kernelwright.analyzers.analysis`.
"""
