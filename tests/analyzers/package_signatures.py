"""The source of packages that cannot run here, read from what their registry offers, and whether a call fits a signature."""

from __future__ import annotations

import ast
import functools
import inspect
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

import pytest


@functools.cache
def _archive(distribution: str) -> Path | None:
    """The package's wheel or source distribution, downloaded without its dependencies; None where that does not work."""
    folder = Path(tempfile.gettempdir()) / "kernelwright-test-packages" / distribution
    if not (folder.is_dir() and any(folder.iterdir())):
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "--no-deps",
            "--no-build-isolation",
            "-d",
            str(folder),
        ]
        # A source distribution tells its metadata by running its setup.py: flash-attn's looks for CUDA unless told not to.
        environment = os.environ | {"FLASH_ATTENTION_SKIP_CUDA_BUILD": "TRUE", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        try:
            subprocess.run([*command, distribution], env=environment, check=True, capture_output=True, timeout=180)
        except (subprocess.SubprocessError, OSError):
            return None
    return next(iter(sorted(folder.iterdir())), None) if folder.is_dir() else None


def package_source(distribution: str, path: str) -> str:
    """The text of one file of a package; the test is skipped where the package cannot be downloaded."""
    archive = _archive(distribution)
    if archive is None:
        pytest.skip(f"{distribution} cannot be downloaded here: no network, or the registry does not have it")
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return wheel.read(path).decode()
    with tarfile.open(archive) as sources:
        member = next(m for m in sources.getmembers() if m.name.partition("/")[2] == path)
        file = sources.extractfile(member)
        assert file is not None
        return file.read().decode()


def signature(source: str, name: str) -> inspect.Signature:
    """The signature of `function` or `Class.method` (without `self`), read from the syntax tree."""
    body = ast.parse(source).body
    *classes, function = name.split(".")
    for class_name in classes:
        body = next(n for n in body if isinstance(n, ast.ClassDef) and n.name == class_name).body
    node = next(n for n in body if isinstance(n, ast.FunctionDef) and n.name == function)
    form = node.args
    positional = [*form.posonlyargs, *form.args]
    first_default = len(positional) - len(form.defaults)
    kind = inspect.Parameter
    made = [
        kind(a.arg, kind.POSITIONAL_OR_KEYWORD, default=None if n >= first_default else kind.empty)
        for n, a in enumerate(positional)
    ][len(classes) :]
    if form.vararg is not None:
        made.append(kind(form.vararg.arg, kind.VAR_POSITIONAL))
    for argument, default in zip(form.kwonlyargs, form.kw_defaults, strict=True):
        made.append(kind(argument.arg, kind.KEYWORD_ONLY, default=kind.empty if default is None else None))
    return inspect.Signature(made)


def accepts(source: str, name: str, snippet: str, called: str | None = None) -> None:
    """Every call of `called` (by default the last part of `name`) in a snippet fits the signature; there is at least one."""
    wanted = called or name.rpartition(".")[2]
    form = signature(source, name)
    calls = [
        n for n in ast.walk(ast.parse(snippet)) if isinstance(n, ast.Call) and ast.unparse(n.func).endswith(wanted)
    ]
    assert calls, f"no call of {wanted}"
    for call in calls:
        form.bind(*call.args, **{k.arg: k.value for k in call.keywords if k.arg is not None})
