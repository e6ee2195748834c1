"""The real model files that the tests read and run, and how to run their classes before and after a fix.

The corpus is installed by `setup_corpus.sh` outside the clone. Nothing here imports it, or torch: real classes run in a
process of their own.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[2]
CACHE = Path(os.environ.get("KERNELWRIGHT_CACHE") or Path.home() / ".cache" / "kernelwright-dev")
CORPUS = CACHE / "corpus"

FILES = {
    "bert": CORPUS / "transformers/models/bert/modeling_bert.py",
    "llama": CORPUS / "transformers/models/llama/modeling_llama.py",
    "activations": CORPUS / "transformers/activations.py",
    "vit": CORPUS / "vit_pytorch/vit.py",
    "sample": ROOT / "examples/sample_model.py",
}
"""The files of the story, by the names that `real_class.py` knows them under."""


def missing() -> str | None:
    """None where the corpus is there, else what to do."""
    if (CORPUS / ".set-up").is_file():
        return None
    return f"no corpus at {CORPUS}: run tests/cases/setup_corpus.sh {CACHE} PYTHON (./dev test does)"


def read(path: Path) -> str:
    """A file's text with its line ends as they are."""
    with path.open(encoding="utf-8", newline="") as file:
        return file.read()


def comments(text: str) -> list[str]:
    """The comment tokens of a Python text, in order."""
    tokens = tokenize.generate_tokens(io.StringIO(text, newline="").readline)
    return [token.string for token in tokens if token.type == tokenize.COMMENT]


def modeling_files() -> list[Path]:
    """The PyTorch modeling files of transformers: `models/**/modeling_*.py` without those for TensorFlow and Flax."""
    found = (CORPUS / "transformers/models").rglob("modeling_*.py")
    return sorted(path for path in found if not path.name.startswith(("modeling_tf_", "modeling_flax_")))


def corpus_environment() -> dict[str, str]:
    """The environment of a process that imports the corpus beside this Python's torch, without the network."""
    offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    return {**os.environ, **offline, "PYTHONPATH": str(CORPUS), "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}


def run_real_classes(subject: str, original: Path, *patched: Path) -> list[dict[str, object]]:
    """Run a subject's comparisons (`real_class.py`) for each patched file, in one process; the checks, in order.

    Raises:
        RuntimeError: the comparisons did not run to their end; the message is what Python said.
    """
    script = Path(__file__).with_name("real_class.py")
    command = [sys.executable, str(script), subject, str(original), *map(str, patched)]
    done = subprocess.run(command, env=corpus_environment(), capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]
