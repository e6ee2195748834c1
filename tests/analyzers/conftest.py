"""Lets the tests of this folder import `before_after`, which runs texts in torch."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))
torch.set_num_threads(1)  # the tensors are small: threads cost more than they give
