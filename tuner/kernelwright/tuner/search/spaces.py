"""The schedule space of a task: seeded random and mutated programs, their features, and their replay. Needs tvm.

Everything here may crash or hang in native code, so it is called in forked children of the zygote only.
"""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kernelwright.tuner.search.programs import Program

JOBS_PER_CORE = (4, 16, 64)
VECTOR_EXTENTS = (16, 64)
UNROLL_STEPS = (0, 16, 64, 512)
"""What the spaces choose from: bounds of parallel tasks a core and of vectors, bounds of explicit unrolling."""

VERSION = 1
"""Of the spaces; counted up when what they hold changes. Stored beside the programs."""

_TENSOR_INTRINSICS = "tvm.s_tir.tensor_intrin"


@dataclass(frozen=True, slots=True)
class Elite:
    """A measured program to evolve from: its trace and its latency in seconds."""

    trace: str
    seconds: float


def leave_out_tensor_intrinsics() -> None:
    """Put an empty module where tvm would import its tensor intrinsics.

    Their import takes 17 s of CPU, in every process, and float32 code on a CPU uses none of them. Call after
    `import tvm` and before anything of MetaSchedule.
    """
    import tvm

    if _TENSOR_INTRINSICS not in sys.modules:
        empty = types.ModuleType(_TENSOR_INTRINSICS)
        empty.__path__ = [str(Path(tvm.__file__).parent / "s_tir" / "tensor_intrin")]
        sys.modules[_TENSOR_INTRINSICS] = empty


def host_cpu() -> str:
    """LLVM's name of this CPU."""
    import tvm

    return str(tvm.get_global_func("target.llvm_get_system_cpu")())


def sample(
    function: Any,
    target: Mapping[str, str | int],
    *,
    seed: int,
    count: int,
    known: Sequence[str] = (),
    elites: Sequence[Elite] = (),
) -> list[Program]:
    """Up to `count` new programs of a function, no two of the same structure and none whose key is `known`.

    Without elites half of them are drawn at random and half are mutants of random ones (pure random is heavy on the
    slow side); with elites all come from an evolution that starts from them. The same arguments give the same programs:
    MetaSchedule is held to one thread, as its threads share one stream of random numbers under a dynamic schedule.
    """
    found: dict[str, Program] = {}
    taken = set(known)
    if not elites:
        _draw(found, taken, (count + 1) // 2, *_candidates(function, target, seed, count, ()), "random")
    _draw(found, taken, count, *_candidates(function, target, seed + 1, 2 * count, elites, evolve=True), "evolved")
    return list(found.values())


def _draw(
    found: dict[str, Program], taken: set[str], count: int, context: Any, candidates: Sequence[Any], origin: str
) -> None:
    """Fill `found` up to `count` with candidates of new structure."""
    from tvm.s_tir import meta_schedule as ms
    from tvm_ffi import structural_hash

    chosen: list[tuple[str, Any]] = []
    for candidate in candidates:
        key = f"{structural_hash(candidate.sch.mod) & (2**64 - 1):016x}"
        if len(found) + len(chosen) < count and key not in taken:
            taken.add(key)
            chosen.append((key, candidate))
    if not chosen:
        return
    extractor = ms.feature_extractor.PerStoreFeature(extract_workload=False)
    rows = extractor.extract_from(context, [candidate for _, candidate in chosen])
    for (key, candidate), row in zip(chosen, rows, strict=True):
        # tvm's own literals (IntImm, FloatImm) are left in the JSON as objects
        trace = json.dumps(candidate.sch.trace.as_json(), separators=(",", ":"), default=lambda literal: literal.value)
        found[key] = Program(key, trace, row.numpy().astype(np.float32), origin)


def _candidates(
    function: Any,
    target: Mapping[str, str | int],
    seed: int,
    count: int,
    elites: Sequence[Elite],
    *,
    evolve: bool = False,
) -> tuple[Any, list[Any]]:
    from tvm.s_tir import meta_schedule as ms

    strategy = "replay-trace"
    if evolve:
        strategy = ms.search_strategy.EvolutionarySearch(
            population_size=max(32, 2 * count),
            init_measured_ratio=0.4 if elites else 0.0,
            init_min_unmeasured=min(20, count),
            max_fail_count=5,
            genetic_num_iters=2,
            genetic_mutate_prob=0.85,
            genetic_max_fail_count=10,
            eps_greedy=0.05,
        )
    contexts = tune_contexts(function, target, strategy, seed)
    spaces = [space for context in contexts for space in context.generate_design_space()]
    context = contexts[-1]
    database = ms.database.MemoryDatabase()
    for elite in elites:
        schedule = replay(function, elite.trace)
        workload = database.commit_workload(context.mod)
        arguments = ms.arg_info.ArgInfo.from_entry_func(context.mod, remove_preproc=True)
        trace = schedule.trace
        database.commit_tuning_record(
            ms.database.TuningRecord(trace, workload, [elite.seconds], context.target, arguments)
        )
    context.pre_tuning(
        max_trials=1 << 20,
        num_trials_per_iter=count,
        design_spaces=spaces,
        database=database,
        cost_model=ms.cost_model.RandomModel(seed=seed % 2**31),
    )
    candidates = context.generate_measure_candidates()
    return context, [] if candidates is None else list(candidates)


def tune_contexts(function: Any, target: Mapping[str, str | int], strategy: Any, seed: int) -> list[Any]:
    """MetaSchedule's contexts whose spaces together are the function's: any one can search them all.

    The rules are explicit, as the default ones on new CPUs want VNNI.
    """
    import tvm
    from tvm.s_tir import meta_schedule as ms

    rest = {"postprocs": ms.postproc.Postproc.create("llvm"), "mutator_probs": ms.mutator.Mutator.create("llvm")}
    if is_elementwise(function):
        generators = [ms.space_generator.ScheduleFn(elementwise_spaces, sch_rules=[], **rest)]
    else:
        generators = [
            ms.space_generator.PostOrderApply(sch_rules=_rules(jobs, extent), **rest)
            for jobs in JOBS_PER_CORE
            for extent in VECTOR_EXTENTS
        ]
    return [
        ms.TuneContext(
            mod=function,
            target=tvm.target.Target(dict(target)),
            space_generator=generator,
            search_strategy=strategy,
            num_threads=1,
            rand_state=1 + seed % (2**31 - 2),
        )
        for generator in generators
    ]


def _rules(jobs_per_core: int, vector_extent: int) -> list[Any]:
    """MetaSchedule's rules for CPUs with these bounds on parallel loops and vectors in place of 16 and 64."""
    from tvm.s_tir import meta_schedule as ms

    kind = ms.schedule_rule.ParallelizeVectorizeUnroll
    own = kind(jobs_per_core, vector_extent, list(UNROLL_STEPS), True)
    return [own if isinstance(rule, kind) else rule for rule in ms.schedule_rule.ScheduleRule.create("llvm")]


def is_elementwise(function: Any) -> bool:
    """Whether nothing is reduced: all axes of all blocks are data parallel."""
    import tvm
    from tvm import s_tir

    schedule = s_tir.Schedule(tvm.IRModule({"main": function}))
    blocks = schedule.get_child_blocks(schedule.get_sblock("root"))
    return all(axis.iter_type == 0 for block in blocks for axis in schedule.get(block).iter_vars)  # 0: data parallel


def elementwise_spaces(schedule: Any) -> list[Any]:
    """Two sketches for a function without reductions, for which MetaSchedule's own rules know one to four programs.

    All is inlined into the last block. Its axes are fused, or all but the last; tiles make the parallel tasks, what one
    of them does in turn, and the vectors.
    """
    *inlined, last = schedule.get_child_blocks(schedule.get_sblock("root"))
    for block in inlined:
        schedule.compute_inline(block)
    by_rows = schedule.copy()
    steps = list(UNROLL_STEPS)
    for sketch, together in ((schedule, True), (by_rows, False)):
        block = sketch.get_sblock(schedule.get(last).name_hint)
        *outer, inner = sketch.get_loops(block)
        if together:
            axis = sketch.fuse(*outer, inner) if outer else inner
            tiles = sketch.sample_perfect_tile(axis, n=3, max_innermost_factor=max(VECTOR_EXTENTS))
            tasks, _, vector = sketch.split(axis, factors=list(tiles))
        else:
            axis = sketch.fuse(*outer) if len(outer) > 1 else outer[0]
            tasks, _ = sketch.split(axis, factors=list(sketch.sample_perfect_tile(axis, n=2)))
            tiles = sketch.sample_perfect_tile(inner, n=2, max_innermost_factor=max(VECTOR_EXTENTS))
            _, vector = sketch.split(inner, factors=list(tiles))
        sketch.parallel(tasks)
        sketch.vectorize(vector)
        chosen = sketch.sample_categorical(steps, [1.0 / len(steps)] * len(steps))
        sketch.annotate(tasks, "pragma_auto_unroll_max_step", chosen)
        sketch.annotate(tasks, "pragma_unroll_explicit", 1)
    return [schedule, by_rows]


def replay(function: Any, trace: str) -> Any:
    """The schedule that a program's trace makes of the unscheduled function."""
    import tvm
    from tvm import s_tir

    schedule = s_tir.Schedule(tvm.IRModule({"main": function}))
    s_tir.schedule.Trace.apply_json_to_schedule(json.loads(trace), schedule)
    return schedule


def flops(function: Any) -> float:
    """Floating point operations of one call, as tvm counts them (a transcendental counts by its polynomial)."""
    import tvm

    count = tvm.get_global_func("s_tir.analysis.EstimateTIRFlops")
    return float(count(tvm.IRModule({"main": function})))


def sentinel() -> tuple[list[Any], Any]:
    """A matrix product of 256³ under a plain schedule, parallel and vectorised: some milliseconds that feel the clock,
    the threads and the caches. Its tensors and its module.
    """
    import tvm
    from tvm import s_tir, te

    from kernelwright.tuner.search import expressions

    tensors = expressions.matmul(256, 256, 256)
    function = te.create_prim_func(tensors)
    schedule = s_tir.Schedule(tvm.IRModule({"main": function}))
    block = schedule.get_sblock("matmul")
    i, j, k = schedule.get_loops(block)
    outer, inner = schedule.split(j, factors=[None, 16])
    schedule.reorder(i, outer, k, inner)
    schedule.parallel(i)
    schedule.vectorize(inner)
    schedule.decompose_reduction(block, k)
    return tensors, schedule.mod
