"""`einops.rearrange` patterns -> reshape, permute, reshape."""

from __future__ import annotations

import re

from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.frontends.torch.graph import Graph, static, tensor
from kernelwright.analyzers.frontends.torch.values import NotUnderstood, Value

_TOKEN = re.compile(r"\(|\)|[A-Za-z_]\w*|1|\.\.\.")


def rearrange(graph: Graph, x: Node, pattern: Value, sizes: dict[str, Value]) -> Node:
    """The rearrangement with named axes; at most one axis of a group may be of unknown size.

    Raises:
        NotUnderstood: an ellipsis, a pattern that is no constant, or axes that do not match.
    """
    text = static(pattern, "pattern")
    if not isinstance(text, str) or "->" not in text:
        raise NotUnderstood("rearrange with a pattern that is not constant")
    left, right = (_groups(side) for side in text.split("->"))
    flat_left = [axis for group in left for axis in group if axis != "1"]
    flat_right = [axis for group in right for axis in group if axis != "1"]
    if sorted(flat_left) != sorted(flat_right) or len(set(flat_left)) != len(flat_left):
        raise NotUnderstood("rearrange that drops or repeats an axis")
    graph.ranks.setdefault(x, len(left))
    extents: dict[str, Node] = {name: tensor(value, name) for name, value in sizes.items()}
    split: list[Node] = []
    for position, group in enumerate(left):
        unknown = [axis for axis in group if axis != "1" and axis not in extents]
        if len(unknown) > 1:
            raise NotUnderstood("rearrange with two unknown sizes in one group")
        for axis in group:
            if axis == "1":
                continue
            if axis in unknown:
                whole = graph.node("size", x, dim=position)
                for other in group:
                    if other in extents and other not in unknown:
                        whole = graph.binary("floordiv", whole, extents[other])
                extents[axis] = whole
            split.append(extents[axis])
    value = x if [list(g) for g in left] == [[axis] for axis in flat_left] else graph.node("reshape", x, *split)
    if flat_left != flat_right:
        value = graph.node("permute", value, dims=tuple(flat_left.index(axis) for axis in flat_right))
    if [list(g) for g in right] == [[axis] for axis in flat_right]:
        return value
    joined: list[Node] = []
    for group in right:
        extent = graph.constant(1)
        for axis in group:
            if axis != "1":
                extent = extents[axis] if extent.attribute("value") == 1 else graph.binary("mul", extent, extents[axis])
        joined.append(extent)
    return graph.node("reshape", value, *joined)


def _groups(side: str) -> list[tuple[str, ...]]:
    if re.sub(r"[\s()]|[A-Za-z_]\w*|1", "", side):
        raise NotUnderstood("rearrange with an ellipsis or another unknown sign")
    groups: list[tuple[str, ...]] = []
    inside: list[str] | None = None
    for token in _TOKEN.findall(side):
        if token == "(":
            inside = []
        elif token == ")":
            groups.append(tuple(inside or ()))
            inside = None
        elif inside is not None:
            inside.append(token)
        else:
            groups.append((token,))
    return groups
