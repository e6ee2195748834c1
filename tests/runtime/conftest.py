"""A kernel built with a C compiler by hand, so that the runtime is tested without tvm: RMS norm of 6×40 float32."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest

RUNTIME = Path(__file__).parents[2] / "tuner" / "runtime"
if str(RUNTIME) not in sys.path and importlib.util.find_spec("kernelwright.runtime") is None:
    sys.path.append(str(RUNTIME))

KERNEL = r"""
#include <math.h>
#include <stdint.h>
/* the binary interface of apache-tvm-ffi 0.1.14: a value is 16 bytes, its type first */
typedef struct { int32_t type; uint32_t zero; union { int64_t integer; char* pointer; } value; } Any;
typedef struct { char* data; int32_t device_type, device_id, ndim; uint8_t code, bits; uint16_t lanes;
                 int64_t* shape; int64_t* strides; uint64_t byte_offset; } Tensor;
static Tensor* tensor(const Any* a) { return (Tensor*)(a->type >= 64 ? a->value.pointer + 24 : a->value.pointer); }
int __tvm_ffi_main(void* self, const Any* arguments, int32_t count, Any* result) {
  const float* x = (const float*)tensor(arguments)->data;
  const float* w = (const float*)tensor(arguments + 1)->data;
  float* out = (float*)tensor(arguments + 2)->data;
  for (int i = 0; i < 6; ++i) {
    double sum = 0;
    for (int j = 0; j < 40; ++j) sum += x[i * 40 + j] * x[i * 40 + j];
    for (int j = 0; j < 40; ++j) out[i * 40 + j] = x[i * 40 + j] / sqrt(sum / 40 + 1e-6) * w[j];
  }
  result->type = 0; result->zero = 0; result->value.integer = 0;
  return 0;
}
"""

SOURCE = """
import torch

try:
    from kernelwright.runtime import tuned
except ImportError:
    def tuned(program):
        return lambda function: function

calls = []


@tuned("rms_norm-test")
def rms_norm(x, weight, eps):
    calls.append(tuple(x.shape))
    return weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps))


class Norm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.linspace(0.5, 1.5, 40))

    def forward(self, x):
        return rms_norm(x, self.weight, 1e-6)
"""


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kernel's shared library."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to build the kernel with")
    if importlib.util.find_spec("tvm_ffi") is None:
        pytest.skip("apache-tvm-ffi is not installed: pip install -e tuner/runtime")
    folder = tmp_path_factory.mktemp("library")
    (folder / "kernel.c").write_text(KERNEL)
    command = [compiler, "-O1", "-shared", "-fPIC", "kernel.c", "-o", "kernel.so", "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "kernel.so"


@pytest.fixture
def workspace(tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with the model file and its artefact, and a state folder that trusts it."""
    from kernelwright.runtime.machine import machine
    from kernelwright.runtime.trust import trust

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "workspace" / ".kernelwright" / "rms_norm-test"
    folder.mkdir(parents=True)
    shutil.copy(library, folder / "aa11.so")
    record = {
        "format": 1,
        "program": "rms_norm-test",
        "fingerprint": "aa11",
        "machine": machine(),
        "device": "cpu",
        "arguments": [
            {"shape": [2, 3, 40], "dtype": "float32"},
            {"shape": [40], "dtype": "float32"},
            {"value": 1e-6},
        ],
        "outputs": [{"shape": [2, 3, 40], "dtype": "float32"}],
        "autocast": True,
        "sha256": trust(folder / "aa11.so"),
    }
    (folder / "aa11.json").write_text(json.dumps(record, indent=1))
    model = tmp_path / "workspace" / "models"
    model.mkdir()
    (model / "model.py").write_text(SOURCE)
    return tmp_path / "workspace"


@pytest.fixture
def load(workspace: Path) -> Callable[[], types.ModuleType]:
    """Imports the model file anew."""
    count = 0

    def made() -> types.ModuleType:
        nonlocal count
        count += 1
        name = f"tuned_model_{workspace.parent.name}_{count}"
        spec = importlib.util.spec_from_file_location(name, workspace / "models" / "model.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module

    return made
