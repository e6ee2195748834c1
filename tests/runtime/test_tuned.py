"""A tuned kernel in user code: used where it fits, never where it does not, and always the same result as the function."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

Load = Callable[[], types.ModuleType]


def reference(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    return weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps))


def inputs(*shape: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    shape = shape or (2, 3, 40)
    return torch.randn(shape, generator=generator, dtype=dtype), torch.rand(shape[-1], generator=generator, dtype=dtype)


def test_the_kernel_is_called_where_it_fits(load: Load) -> None:
    module, (x, weight) = load(), inputs()
    torch.testing.assert_close(module.rms_norm(x, weight, 1e-6), reference(x, weight))
    torch.testing.assert_close(module.rms_norm(x, weight=weight, eps=1e-6), reference(x, weight))
    assert module.calls == []


def other_shape(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, float]:
    return torch.cat((x, x)), w, 1e-6


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(other_shape, id="shape"),
        pytest.param(lambda x, w: (x.double(), w.double(), 1e-6), id="dtype"),
        pytest.param(lambda x, w: (x, w, 1e-5), id="number"),
        pytest.param(lambda x, w: (x.to("meta"), w.to("meta"), 1e-6), id="device"),
        pytest.param(lambda x, w: (x.transpose(1, 2).contiguous().transpose(1, 2), w, 1e-6), id="strides"),
        pytest.param(
            lambda x, w: (torch.cat((x.flatten()[:1], x.flatten()))[1:].view(2, 3, 40), w, 1e-6), id="alignment"
        ),
        pytest.param(lambda x, w: (x.as_subclass(type("Own", (torch.Tensor,), {})), w, 1e-6), id="subclass"),
    ],
)
def test_anything_else_gets_the_function_itself(load: Load, change: Callable[..., tuple[object, ...]]) -> None:
    module, arguments = load(), change(*inputs())
    result, expected = module.rms_norm(*arguments), reference(*arguments)  # type: ignore[arg-type]
    assert len(module.calls) == 1
    if result.device.type == "cpu":
        torch.testing.assert_close(result, expected, rtol=0, atol=0)


def test_gradients_are_those_of_the_function(load: Load) -> None:
    module, (x, weight) = load(), inputs()
    given = torch.randn(2, 3, 40)
    gradients = []
    for function in (module.rms_norm, reference):
        a, b = x.clone().requires_grad_(), weight.clone().requires_grad_()
        gradients.append(torch.autograd.grad((function(a, b, 1e-6) * given).sum(), (a, b)))
    torch.testing.assert_close(gradients[0], gradients[1])
    only = weight.clone().requires_grad_()
    module.rms_norm(x, only, 1e-6).sum().backward()
    torch.testing.assert_close(only.grad, (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)).sum((0, 1)))


def test_gradients_of_gradients(load: Load) -> None:
    module, (x, weight) = load(), inputs()
    found = []
    for function in (module.rms_norm, reference):
        a, b = x.clone().requires_grad_(), weight.clone().requires_grad_()
        (first,) = torch.autograd.grad(function(a, b, 1e-6).sin().sum(), a, create_graph=True)
        found.append(torch.autograd.grad(first.pow(2).sum(), (a, b)))
    torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-5)


def test_gradcheck(load: Load) -> None:
    # the kernel is float32: a double goes the function's way, so the operator's backward is checked on its own
    module, (x, weight) = load(), inputs()
    assert torch.autograd.gradcheck(
        lambda a, b: module.rms_norm(a, b, 1e-6),
        (x.clone().requires_grad_(), weight.clone().requires_grad_()),
        eps=1e-2, atol=1e-2, rtol=1e-2,
    )  # fmt: skip
    assert module.calls


def test_the_same_tensor_twice(load: Load, workspace: Path) -> None:
    """Both gradients arrive, each once."""
    module, x = load(), torch.ones(40)
    shared = torch.randn(2, 3, 40).requires_grad_()
    a = shared * 1
    module.rms_norm(a, x * a[0, 0], 1e-6).sum().backward()
    got, shared.grad = shared.grad, None
    a = shared * 1
    reference(a, x * a[0, 0]).sum().backward()
    torch.testing.assert_close(got, shared.grad)


@pytest.mark.parametrize("neutral", [True, False])
def test_autocast(load: Load, workspace: Path, neutral: bool) -> None:
    path = workspace / ".kernelwright" / "rms_norm-test" / "aa11.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"autocast": neutral}))
    module, (x, weight) = load(), inputs()
    with torch.autocast("cpu", torch.bfloat16):
        result, expected = module.rms_norm(x, weight, 1e-6), reference(x, weight)
    assert result.dtype == expected.dtype
    torch.testing.assert_close(result, expected)
    assert bool(module.calls) != neutral


def test_compiled_as_one_graph_with_gradients(load: Load) -> None:
    module, (x, _) = load(), inputs()
    norm = module.Norm()
    compiled = torch.compile(norm, fullgraph=True, backend="aot_eager")
    a = x.clone().requires_grad_()
    result = compiled(a)
    result.sin().sum().backward()
    plain, b = copy.deepcopy(norm), x.clone().requires_grad_()
    plain.zero_grad()
    expected = reference(b, plain.weight)
    expected.sin().sum().backward()
    torch.testing.assert_close(result, expected)
    torch.testing.assert_close(a.grad, b.grad)
    torch.testing.assert_close(norm.weight.grad, plain.weight.grad)


def test_the_compiled_graph_holds_the_kernel_and_for_other_shapes_the_function(load: Load) -> None:
    module, (x, weight) = load(), inputs()
    graphs: list[list[str]] = []

    def keep(graph: torch.fx.GraphModule, example: object) -> Callable[..., object]:
        graphs.append([str(node.target) for node in graph.graph.nodes if node.op in ("call_function", "call_method")])
        return graph.forward

    torch._dynamo.reset()
    compiled = torch.compile(module.rms_norm, fullgraph=True, backend=keep)
    torch.testing.assert_close(compiled(x, weight, 1e-6), reference(x, weight))
    longer = torch.cat((x, x))
    torch.testing.assert_close(compiled(longer, weight, 1e-6), reference(longer, weight))
    assert any("kernelwright" in name for name in graphs[0])
    assert len(graphs[0]) == 1
    assert len(graphs) == 2
    assert not any("kernelwright" in name for name in graphs[1])


def test_compiled_with_inductor(load: Load) -> None:
    module, (x, weight) = load(), inputs()
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, w: module.rms_norm(x * 2, w, 1e-6) + 1, fullgraph=True)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x, weight), reference(x * 2, weight) + 1)
    assert module.calls == []


def test_a_dynamic_extent_stays_dynamic(load: Load) -> None:
    module, (x, weight) = load(), inputs()
    torch._dynamo.reset()
    torch._dynamo.mark_dynamic(x, 0)
    compiled = torch.compile(module.rms_norm, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, weight, 1e-6), reference(x, weight))


def test_an_exported_program_holds_the_function(load: Load) -> None:
    module, (x, _) = load(), inputs()
    exported = torch.export.export(module.Norm(), (x,))
    assert not any("kernelwright" in str(node.target) for node in exported.graph.nodes)
    torch.testing.assert_close(exported.module()(x), module.Norm()(x))
    batch = torch.export.Dim("batch", min=2, max=64)
    dynamic = torch.export.export(module.Norm(), (x,), dynamic_shapes={"x": {0: batch}})
    longer = torch.cat((x, x))
    torch.testing.assert_close(dynamic.module()(longer), module.Norm()(longer))


def test_tracers_and_transforms_see_the_functions_operations(load: Load) -> None:
    module, (x, weight) = load(), inputs()
    traced = torch.jit.trace(lambda a, b: module.rms_norm(a, b, 1e-6), (x, weight))
    other = torch.randn(2, 3, 40)
    torch.testing.assert_close(traced(other, weight), reference(other, weight))
    batched = torch.stack((x, other))
    mapped = torch.func.vmap(lambda a: module.rms_norm(a, weight, 1e-6))(batched)
    torch.testing.assert_close(mapped, reference(batched, weight))
    slope = torch.func.grad(lambda a: module.rms_norm(a, weight, 1e-6).sum())(x)
    torch.testing.assert_close(slope, torch.func.grad(lambda a: reference(a, weight).sum())(x))


def test_the_state_dict_is_the_same(load: Load) -> None:
    assert list(load().Norm().state_dict()) == ["weight"]


# --- trust -----------------------------------------------------------------------------------------------------------


def artefact(workspace: Path, suffix: str = ".so") -> Path:
    return workspace / ".kernelwright" / "rms_norm-test" / f"aa11{suffix}"


def edit_record(workspace: Path, **fields: object) -> None:
    path = artefact(workspace, ".json")
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def altered(workspace: Path) -> None:
    artefact(workspace).write_bytes(artefact(workspace).read_bytes() + b"\0")


def altered_with_its_record(workspace: Path) -> None:
    from kernelwright.runtime.trust import digest

    altered(workspace)
    edit_record(workspace, sha256=digest(artefact(workspace).read_bytes()))


def foreign(workspace: Path) -> None:
    from kernelwright.runtime.trust import trust_file

    trust_file().unlink()


def writable_by_others(workspace: Path) -> None:
    from kernelwright.runtime.trust import trust_file

    trust_file().chmod(0o666)


@pytest.mark.parametrize(
    "spoil",
    [
        altered,
        altered_with_its_record,
        foreign,
        writable_by_others,
        lambda w: edit_record(w, machine="0" * 16),
        lambda w: edit_record(w, format=99),
        lambda w: artefact(w, ".json").write_text("{"),
        lambda w: artefact(w, ".json").write_text("[]"),
        lambda w: artefact(w).unlink(),
    ],
    ids=["altered", "altered with record", "foreign", "open list", "machine", "format", "broken", "no record", "gone"],
)
def test_what_was_not_built_here_is_not_loaded(
    load: Load, workspace: Path, spoil: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(workspace)
    module, (x, weight) = load(), inputs()
    import tvm_ffi

    monkeypatch.setattr(tvm_ffi, "load_module", lambda path: pytest.fail("loaded"))
    torch.testing.assert_close(module.rms_norm(x, weight, 1e-6), reference(x, weight))
    assert len(module.calls) == 1
    assert not hasattr(module.rms_norm, "__wrapped__")  # the function is as it was


def test_a_library_changed_after_the_import_is_not_loaded(load: Load, workspace: Path) -> None:
    module, (x, weight) = load(), inputs()
    altered(workspace)
    with pytest.warns(RuntimeWarning, match="changed since it was built"):
        torch.testing.assert_close(module.rms_norm(x, weight, 1e-6), reference(x, weight))
    assert len(module.calls) == 1


@pytest.mark.parametrize("program", ["../escape", "a/b", "", ".."])
def test_a_program_id_names_no_path(tmp_path: Path, program: str) -> None:
    from kernelwright.runtime.artefacts import folder_of

    (tmp_path / ".kernelwright").mkdir()
    (tmp_path / "escape").mkdir()
    assert folder_of(program, tmp_path / "model.py") is None


def test_a_program_without_the_package_still_runs(workspace: Path) -> None:
    """Everything but torch is hidden from the interpreter."""
    code = (
        "import sys; sys.modules['kernelwright'] = None; sys.path.insert(0, 'models')\n"
        "import torch, model; x = torch.ones(2, 3, 40)\n"
        "print(model.Norm()(x).shape == x.shape, len(model.calls))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=workspace, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "1"]
