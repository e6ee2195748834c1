"""What a user's program imports to call a kernel tuned for this machine: the decorator `tuned`, and nothing else.

A decorated function is its own fallback, reference and backward pass. Where there is no kernel for it here, the
decorator gives the function back unchanged.
"""

from kernelwright.runtime.decorator import tuned

__all__ = ["tuned"]
