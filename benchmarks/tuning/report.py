"""Writes the tables of docs/tuning.md and its plots from results/*.json: `python benchmarks/tuning/report.py`.

A table stands between `<!-- begin NAME -->` and `<!-- end NAME -->`; the text around it is written by hand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kernelwright.tuner.search.record_arrays import load, replicate_pairs

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PAGE = HERE.parents[1] / "docs" / "tuning.md"
PLOTS = PAGE.with_name("tuning")
Row = dict[str, Any]
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#555555")


def spread(values: Sequence[float] | None, digits: int = 3) -> str:
    """`median (least–most)` of what is stored as [least, median, most]."""
    if values is None:
        return "–"
    low, middle, high = (f"{value:.{digits}f}" for value in values)
    return middle if low == high else f"{middle} ({low}–{high})"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def records() -> str:
    rows = []
    for name in ("records", "pool"):
        of = load(HERE / name)
        for number, device in enumerate(of.devices):
            mine = of.device == number
            spreads = of.spread[mine & np.isfinite(of.spread)]
            rows.append([
                name, device, str(int(mine.sum())), str(int((of.status[mine] == 0).sum())),
                str(int((of.replicate[mine] > 0).sum())), f"{100 * np.median(spreads):.1f} %" if len(spreads) else "–",
            ])  # fmt: skip
        pairs = replicate_pairs(of)
        cv = np.abs(pairs[:, 0] - pairs[:, 1]) / np.sqrt(2) / pairs.mean(axis=1)
        rows.append([name, "all", str(len(of.program)), str(int((of.status == 0).sum())), str(len(pairs)),
                     f"repeated: {100 * np.median(cv):.1f} %, ≤ 10 % for {100 * np.mean(cv <= 0.1):.0f} %"])  # fmt: skip
    return table(["store", "device", "records", "timed", "measured again", "CV within a measurement"], rows)


def splits(rows: list[Row]) -> str:
    fields = ("pca", "pca_beyond", "share", "peak1", "peak5", "top5")
    head = ["split", "model", "PCA", "PCA beyond noise", "share of ceiling", "peak@1", "peak@5", "top-5"]
    return table(head, ([row["split"], row["model"], *(spread(row[field]) for field in fields)] for row in rows))


def unseen(rows: list[Row]) -> str:
    head = ["device held out", "way", "PCA", "PCA beyond noise", "top-5"]
    return table(
        head, ([row["at"], row["way"], *(spread(row[f]) for f in ("pca", "pca_beyond", "top5"))] for row in rows)
    )


def kept(rows: list[Row]) -> str:
    shares = sorted({row["kept"] for row in rows})
    cells = {(row["split"], row["sampler"], row["kept"]): row["pca_beyond"] for row in rows}
    pairs = dict.fromkeys((row["split"], row["sampler"]) for row in rows)
    head = ["split", "sampler", *(f"{100 * share:.0f} %" for share in shares)]
    return table(head, ([*pair, *(spread(cells[(*pair, share)]) for share in shares)] for pair in pairs))


def named(*keys: str) -> Callable[[list[Row]], str]:
    def made(rows: list[Row]) -> str:
        fields = ("pca", "pca_beyond", "peak1", "top5")
        body = ([*(str(row[key]) for key in keys), *(spread(row[field]) for field in fields)] for row in rows)
        return table([*keys, "PCA", "PCA beyond noise", "peak@1", "top-5"], body)

    return made


def replayed(rows: list[Row]) -> str:
    head = ["task", "strategy", "programs", "trials to 5 %", "share of the time", "speed-up after 8"]
    body = [
        [
            row["task"],
            row["strategy"],
            str(row["programs"]),
            spread(row["trials"], 0),
            spread(row["time"]),
            spread(row["after_8"], 2),
        ]
        for row in rows
    ]
    for name in dict.fromkeys(row["strategy"] for row in rows):
        mine = [row for row in rows if row["strategy"] == name]
        medians = [
            [float(f([row[key][1] for row in mine])) for f in (np.min, np.median, np.max)]
            for key in ("trials", "time", "after_8")
        ]
        body.append(
            [
                f"**median of {len(mine)} tasks**",
                name,
                "",
                spread(medians[0], 1),
                spread(medians[1]),
                spread(medians[2], 2),
            ]
        )
    return table(head, body)


def plot(path: Path, title: str, across: str, up: str, lines: dict[str, list[tuple[float, float]]]) -> None:
    """A small SVG of lines over a logarithmic axis."""
    width, height, left, bottom = 560, 320, 60, 50
    xs = np.log([x for line in lines.values() for x, _ in line])
    ys = [y for line in lines.values() for _, y in line]
    low, high = min(ys) - 0.02, max(ys) + 0.02

    def at(x: float, y: float) -> tuple[float, float]:
        across_share = (np.log(x) - xs.min()) / max(float(np.ptp(xs)), 1e-9)
        return left + across_share * (width - left - 130), height - bottom - (y - low) / (high - low) * (
            height - bottom - 40
        )

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-size="11">',
             '<rect width="100%" height="100%" fill="white"/>', f'<text x="{left}" y="20" font-size="13">{title}</text>',
             f'<text x="{left}" y="{height - 10}">{across}</text>',
             f'<text x="14" y="{height - bottom}" transform="rotate(-90 14 {height - bottom})">{up}</text>']  # fmt: skip
    for x in sorted({x for line in lines.values() for x, _ in line}):
        place, base = at(x, low)
        parts.append(f'<text x="{place:.1f}" y="{base + 16:.1f}" text-anchor="middle">{x:g}</text>')
    for y in np.linspace(low + 0.02, high - 0.02, 5):
        _, place = at(float(np.exp(xs.min())), float(y))
        parts.append(f'<text x="{left - 6}" y="{place + 4:.1f}" text-anchor="end">{y:.2f}</text>'
                     f'<line x1="{left}" y1="{place:.1f}" x2="{width - 130}" y2="{place:.1f}" stroke="#ddd"/>')  # fmt: skip
    for number, (name, line) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*point) for point in sorted(line)))
        parts += [f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>',
                  f'<text x="{width - 120}" y="{50 + 16 * number}" fill="{colour}">{name}</text>']  # fmt: skip
    path.write_text("\n".join([*parts, "</svg>", ""]))


def plots(parts: dict[str, Any], replay: list[Row]) -> None:
    PLOTS.mkdir(exist_ok=True)
    if replay:
        lines: dict[str, list[tuple[float, float]]] = {}
        for name in dict.fromkeys(row["strategy"] for row in replay):
            curves = np.array([row["curve"][:7] for row in replay if row["strategy"] == name])
            lines[name] = [(float(2**power), float(y)) for power, y in enumerate(np.minimum(curves, 1.0).mean(axis=0))]
        plot(
            PLOTS / "trials.svg",
            "Best found, share of the pool's best (mean of 8 tasks)",
            "trials",
            "best / found",
            lines,
        )
    if "data_kept" in parts:
        lines = {}
        for row in parts["data_kept"]["rows"]:
            if row["split"] == "by_task":
                lines.setdefault(row["sampler"], []).append((100 * row["kept"], row["pca_beyond"][1]))
        plot(
            PLOTS / "data-kept.svg",
            "Held-out tasks: pairs in order, by sampler",
            "% of the data kept",
            "PCA beyond noise",
            lines,
        )
    if "learning_curve" in parts:
        rows, every = parts["learning_curve"]["rows"], parts["learning_curve"]["examples"]
        line = [
            (float(every if row["trained on"] == "all" else row["trained on"]), row["pca_beyond"][1]) for row in rows
        ]
        plot(
            PLOTS / "learning-curve.svg",
            "Held-out tasks: pairs in order",
            "training examples",
            "PCA beyond noise",
            {"trees": line},
        )


def main() -> None:
    parts = json.loads((RESULTS / "evaluation.json").read_text())
    replay = json.loads((RESULTS / "replay.json").read_text())
    makers: dict[str, Callable[[list[Row]], str]] = {
        "splits": splits, "unseen_devices": unseen, "data_kept": kept, "learning_curve": named("trained on"),
        "feature_groups": named("split", "columns"), "across_subgraphs": named("learned from"),
        "parts_of_the_network": named("way"),
    }  # fmt: skip
    blocks = {"records": records(), "replay": replayed(replay)}
    blocks |= {
        name: f"{parts[name]['examples']} examples, {parts[name]['seeds']} seeds.\n\n" + make(parts[name]["rows"])
        for name, make in makers.items()
        if name in parts
    }
    page = PAGE.read_text()
    for name, block in blocks.items():
        pattern = re.compile(rf"(<!-- begin {name} -->\n).*?(<!-- end {name} -->)", re.DOTALL)
        if not pattern.search(page):
            raise SystemExit(f"{PAGE} has no place for {name}: write <!-- begin {name} --> and <!-- end {name} -->")
        page = pattern.sub(lambda found, block=block: f"{found[1]}{block}\n{found[2]}", page)  # type: ignore[misc]
    PAGE.write_text(page)
    plots(parts, replay)
    print(f"{PAGE.name}: {', '.join(blocks)}")


if __name__ == "__main__":
    main()
