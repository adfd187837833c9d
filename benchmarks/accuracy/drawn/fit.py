"""Fits the trees of gocore/sim/runtime/cudnn_trees.h to convolutions.jsonl, and says how well they foretell a
quarter.

    python benchmarks/accuracy/drawn/fit.py [--write]

cuDNN chooses an engine by heuristics that are not documented. What an engine requests has few forms: copies of the
image, the filter and the result in another format, and sums in float of the filter's size, of which it takes one for
each image, or as many as it divides the work into. For the gradient of a filter, and the other ways in TREES, one tree
chooses the form, and another the number of sums. With torch.backends.cudnn.benchmark, PyTorch first allocates the
largest workspace of all engines; a tree foretells its ratio to copies of the tensors, or to the tensors themselves
(`unit`). Trees are fitted to a random three quarters of the recorded convolutions for the figures, and to all of them
for the file. Needs
scikit-learn.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator
from math import ceil, log2, prod
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests_py.recordings import Recording

HERE = Path(__file__).resolve().parent
HEADER = HERE.parent.parent.parent / "gocore" / "sim" / "runtime" / "cudnn_trees.h"
LEAVES, FEWEST = 32, 4  # of a tree, and convolutions of a leaf
KINDS = {"narrow": ("bfloat16", "float16"), "tf32": ("tf32",), "float": ("float32",)}
WAYS = ("forward", "data", "filter")
# Where trees foretell more of what forward and the gradient of the image request than the rules of cudnn_workspace.c
# do.
TREES = {"tf32_first": ("forward", "data"), "float_last": ("forward",)}
FEATURES = (
    "N",
    "C",
    "K",
    "X_PLANE",
    "Y_PLANE",
    "WINDOW",
    "GROUPS",
    "DEPTH",
    "ROWS",
    "X",
    "Y",
    "W",
    "C_REST",
    "K_REST",
    "DIMENSIONS",
    "TILES_128",
    "TILES_64",
)
FEATURES += ("IS_HALF", "GROUP_C")
# What an engine requests: copies of these tensors, and sums for each image ("n") or as many as a tree says ("s").
FORMS = ("", "xy", "xyw", "xw", "x", "y", "w", "yw", "n", "s", "xyws", "xys")
COUNTER = 16


def main() -> None:
    """Print the figures, and write the file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    convolutions = read()
    print(f"{len(convolutions)} convolutions")
    text = [HEAD]
    for kind, last in [(kind, last) for kind in KINDS for last in (False, True)]:
        ours = [one for one in convolutions if one["type"] in KINDS[kind] and one["channels_last"] == last]
        name = f"{kind}_{'last' if last else 'first'}"
        figures(name, [one for one in ours if not one["benchmark"]], [one for one in ours if one["benchmark"]])
        for way in [*TREES.get(name, ()), "filter"]:
            text += trees(f"{name}_{way}", [one for one in ours if not one["benchmark"]], way)
        text += [tree(f"{name}_largest_{way}", largest([one for one in ours if one["benchmark"]], way)) for way in WAYS]
    if asked.write:
        HEADER.write_text("\n".join(text), encoding="utf-8")


HEAD = """/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Written by benchmarks/accuracy/drawn/fit.py of the convolutions that were recorded on an H200 with cuDNN 9.19. A node
 * is a feature, the threshold up to which the next node follows, and the node that follows else; or a leaf, with its
 * value.
 */
"""


def read() -> list[dict[str, Any]]:
    """Return the recorded convolutions, as cuDNN sees them: a transposed one is the gradient of another."""
    lines = Recording("accuracy/drawn/convolutions.jsonl").read_text().splitlines()
    names = json.loads(lines[0])["fields"]
    return [seen(dict(zip(names, json.loads(line), strict=True))) for line in lines[1:]]


def seen(one: dict[str, Any]) -> dict[str, Any]:
    """Add the sizes of x, w and y, and the largest request of each way."""
    x, y = (one["in"], one["size"]), (one["out"], result_size(one))
    forward, data = "forward", "input"
    if one["transposed"]:
        x, y, forward, data = y, x, data, forward
    one |= {"C": x[0], "K": y[0], "x": prod(x[1]), "y": prod(y[1]), "window": prod(one["kernel"])}
    one["requests"] = [max([-size for size in one[name] if size < 0], default=0) for name in (forward, data, "weight")]
    one["element"] = 2 if one["type"] in KINDS["narrow"] else 4
    one["filter"] = one["C"] // one["groups"] * one["K"] * one["window"]
    return one


def result_size(one: dict[str, Any]) -> list[int]:
    """Return the size of a convolution's result."""
    parts = zip(one["size"], one["kernel"], one["stride"], one["padding"], one["dilation"], strict=True)
    if one["transposed"]:
        return [
            (size - 1) * stride - 2 * pad + dilation * (kernel - 1) + 1 for size, kernel, stride, pad, dilation in parts
        ]
    return [
        (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1 for size, kernel, stride, pad, dilation in parts
    ]


def features(one: dict[str, Any]) -> list[int]:
    """Return what a tree may ask for, in the order of FEATURES; cudnn_workspace.c has the same."""
    n, groups, depth = one["batch"], one["groups"], one["C"] // one["groups"] * one["window"]
    rows, width = n * one["y"], one["K"] // groups
    found = [n, one["C"], one["K"], one["x"], one["y"], one["window"], groups, depth, rows, n * one["C"] * one["x"]]
    found += [n * one["K"] * one["y"], one["filter"], one["C"] % 8, one["K"] % 8, max(2, len(one["size"]))]
    found += [ceil(width / tile) * ceil(depth / tile) for tile in (128, 64)]
    return [*found, int(one["type"] == "float16"), one["C"] // groups]


def copies(one: dict[str, Any]) -> dict[str, int]:
    """Return the bytes of a copy of each tensor, whose channels are padded to 16 bytes."""
    element, vector = one["element"], 16 // one["element"]

    def copy(rows: int, channels: int) -> int:
        return rows * ceil(channels / vector) * vector * element

    x, y = (one["batch"] * one[name] for name in "xy")
    return {
        "x": copy(x, one["C"]),
        "y": copy(y, one["K"]),
        "w": copy(one["K"] * one["window"], one["C"] // one["groups"]),
    }


def bytes_of(one: dict[str, Any], form: str, sums: float) -> float:
    """Return what an engine of a form requests."""
    each = copies(one)
    count = {"n": float(one["batch"]), "s": sums}.get(form[-1:], 0.0)
    return sum(each[name] for name in form if name in each) + count * 4 * one["filter"]


def form_of(one: dict[str, Any], request: int) -> tuple[str, float]:
    """Return the form of what was requested, and the number of sums."""
    slack = COUNTER * one["groups"] + 600
    if request <= slack:
        return "", 0.0
    for form in ("xyw", "xy", "x", "y", "w", "xw", "yw", "n"):
        if -1 <= request - bytes_of(one, form, 0.0) <= slack:
            return form, 0.0
    for form in ("s", "xyws", "xys"):
        sums = (request - bytes_of(one, form[:-1], 0.0)) / 4 / one["filter"]
        if round(sums) >= 1 and abs(sums - round(sums)) * 4 * one["filter"] <= slack < 2 * one["filter"]:
            return form, round(sums)
    form = "xyws" if request > bytes_of(one, "xyw", 0.0) else "s"
    return form, (request - bytes_of(one, form[:-1], 0.0)) / 4 / one["filter"]


def forms_and_sums(ours: list[dict[str, Any]], way: str) -> tuple[Any, dict[str, Any]]:
    """Fit the trees for what one way requests."""
    number = WAYS.index(way)
    inputs, found = np.array([features(one) for one in ours]), [form_of(one, one["requests"][number]) for one in ours]
    chooser = DecisionTreeClassifier(max_leaf_nodes=LEAVES, min_samples_leaf=FEWEST, random_state=0)
    chooser.fit(inputs, [FORMS.index(form) for form, _ in found])
    counters = {}
    for form in ("s", "xyws", "xys"):
        those = [number for number, (other, sums) in enumerate(found) if other == form and sums > 0]
        if len(those) >= 2 * FEWEST:
            counters[form] = regression(inputs[those], [log2(found[number][1]) for number in those])
    return chooser, counters


def regression(inputs: Any, values: Any) -> Any:
    """Fit a tree of medians."""
    fitted = DecisionTreeRegressor(
        max_leaf_nodes=24, min_samples_leaf=FEWEST, criterion="absolute_error", random_state=0
    )
    return fitted.fit(inputs, values)


def tensors(one: dict[str, Any]) -> int:
    """Return the bytes of the tensors."""
    return int(one["element"] * (one["batch"] * (one["C"] * one["x"] + one["K"] * one["y"]) + one["filter"]))


def unit(one: dict[str, Any], way: str) -> float:
    """Return what the largest workspace is a multiple of."""
    if way == "filter" or (way == "forward" and one["element"] == 4):
        return tensors(one)
    return bytes_of(one, "xyw" if one["window"] > 1 else "xy", 0.0)


def largest(ours: list[dict[str, Any]], way: str) -> Any:
    """Fit the ratio of the largest workspace to its unit, which is at least 1/64 here."""
    ratios = [log2(max(one["requests"][WAYS.index(way)] / unit(one, way), 1 / 64)) for one in ours]
    return regression(np.array([features(one) for one in ours]), ratios)


def bytes_of_largest(one: dict[str, Any], way: str, logarithm: float) -> float:
    """Return the workspace of a leaf's value; cudnn_workspace.c has the same."""
    ratio = 2**logarithm
    whole = round(ratio)
    ratio = float(whole) if abs(ratio - whole) < 0.08 * whole else ratio
    return 0.0 if ratio <= 1 / 64 else ratio * unit(one, way)


def trees(name: str, ours: list[dict[str, Any]], way: str) -> Iterator[str]:
    """Yield the trees for what one way requests; a form that was not seen has a tree of one leaf."""
    chooser, counters = forms_and_sums(ours, way)
    yield tree(f"{name}_form", chooser)
    for form in ("s", "xyws", "xys"):
        yield (
            tree(f"{name}_{form}", counters[form])
            if form in counters
            else f"static const struct node {name}_{form}[] = {{{{LEAF, 0, 0}}}};"
        )


def tree(name: str, fitted: Any) -> str:
    """Return a tree as C."""
    nodes = fitted.tree_
    order: list[int] = []

    def visit(number: int) -> None:
        order.append(number)
        if nodes.children_left[number] >= 0:
            visit(nodes.children_left[number])
            visit(nodes.children_right[number])

    visit(0)
    place = {number: at for at, number in enumerate(order)}
    written = []
    for number in order:
        if nodes.children_left[number] >= 0:
            feature = FEATURES[nodes.feature[number]]
            written.append(f"{{{feature}, {nodes.threshold[number]:.10g}, {place[nodes.children_right[number]]}}}")
            continue
        values = nodes.value[number][0]
        leaf = fitted.classes_[values.argmax()] if hasattr(fitted, "classes_") else round(float(values[0]), 4)
        written.append(f"{{LEAF, {leaf}, 0}}")
    lines, line = [], "\t"
    for one in written:
        if len(line) + len(one) > 150:
            lines.append(line.rstrip())
            line = "\t"
        line += one + ", "
    return f"static const struct node {name}[] = {{\n" + "\n".join([*lines, line.rstrip().rstrip(",")]) + "\n};"


def right(usual: list[dict[str, Any]], way: str) -> float:
    """Return the share of the last quarter whose request trees of the others foretell."""
    cut = len(usual) * 3 // 4
    chooser, counters = forms_and_sums(usual[:cut], way)
    near = 0
    for one in usual[cut:]:
        form = FORMS[int(chooser.predict([features(one)])[0])]
        sums = 2 ** float(counters[form].predict([features(one)])[0]) if form in counters else 0.0
        request = one["requests"][WAYS.index(way)]
        off = abs(bytes_of(one, form, round(sums) if sums >= 1 else sums) - request)
        near += off <= max(0.01 * request, 0.01 * tensors(one), 1 << 16)
    return near / (len(usual) - cut)


def figures(name: str, usual: list[dict[str, Any]], found: list[dict[str, Any]]) -> None:
    """Print how often trees of three quarters foretell the others: what is requested, and the largest within a factor
    of 2.
    """
    for ours in (usual, found):
        random.Random(0).shuffle(ours)
    line = f"{name}:"
    for way in [*TREES.get(name, ()), "filter"]:
        line += f" {way} {100 * right(usual, way):.0f} %,"
    line += f" of {len(usual) - len(usual) * 3 // 4}"
    cut = len(found) * 3 // 4
    for number, way in enumerate(WAYS):
        fitted = largest(found[:cut], way)
        within = 0
        for one in found[cut:]:
            guess = bytes_of_largest(one, way, float(fitted.predict([features(one)])[0]))
            least = 0.05 * tensors(one)
            within += guess / 2 - least <= one["requests"][number] <= 2 * guess + least
        line += f"; largest, {way} {100 * within / (len(found) - cut):.0f} % of {len(found) - cut}"
    print(line)


if __name__ == "__main__":
    main()
