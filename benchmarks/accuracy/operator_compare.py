"""Compare two recordings of operator_recorder.py: of a GPU and of a simulated one.

``python operator_compare.py REAL SIMULATED [--list] [--show NAME] [--unseen]`` prints, for each kind of unit, how many
have the same sequence of allocations and frees, the same peak and the same bytes after each phase. --list prints the
units that differ, --show both traces of those whose name contains NAME. Units of the unseen half (by a hash of the
name) are only counted. With ``--reduce RECORDING...`` it writes REAL, with what is compared of these.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import lzma
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

Recording = dict[str, dict[str, Any]]


def opened(path: str) -> Iterator[str]:
    kinds: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open}
    with kinds.get(Path(path).suffix, open)(path, "rt") as lines:
        yield from lines


def read(path: str) -> Recording:
    found = {}
    for text in opened(path):
        if not text.startswith('{"unit"'):
            continue
        line = json.loads(text)
        if line["phases"] or "ended" in line:
            found[line["unit"]] = line
    return found


def unseen(name: str) -> bool:
    return hashlib.sha256(name.encode()).digest()[0] % 2 == 1


def error(phase: dict[str, Any]) -> str:
    return str(phase.get("error", "")).split(":")[0]


def ordered(trace: list[int]) -> list[int]:
    """Return a trace with frees that follow each other in the order of their allocations: autocast frees its cache in
    any order.
    """
    found: list[int] = []
    frees: list[int] = []
    for step in [*trace, 1]:
        if step > 0:
            found += [*sorted(frees, reverse=True), step]
            frees = []
        else:
            frees.append(step)
    return found[:-1]


def sequences(unit: dict[str, Any]) -> list[Any]:
    return [(phase["phase"], ordered(phase["trace"]), error(phase)) for phase in unit["phases"]]


def numbers(unit: dict[str, Any], key: str) -> list[int]:
    """Return a number for each phase:
    "reserved", or "peak" and "after" of what the unit has requested, in blocks of 512 bytes.

    The allocator's own counts depend on what units before have left in its caches.
    """
    if key == "reserved":
        return [phase[key] for phase in unit["phases"]]
    sizes, live, found = [0], 0, []
    for phase in unit["phases"]:
        peak = live
        for step in phase["trace"]:
            if step > 0:
                sizes.append(-step // 512 * -512)
            live += sizes[-1] if step > 0 else -sizes[-step] if step < 0 else 0
            peak = max(peak, live)
        found.append(peak if key == "peak" else live)
    return found


def reduced(paths: list[str], out: str) -> None:
    """Write what is compared of recordings, and the sizes of workspaces, into one file."""
    units: Recording = {}
    others = []
    for path in paths:
        units.update({name: unit for name, unit in read(path).items() if not name.startswith("warm-up")})
        others += [text for text in opened(path) if text.startswith(('{"about"', '{"sizes"'))]
    with lzma.open(out, "wt", preset=9 | lzma.PRESET_EXTREME) as file:
        for text in others:
            file.write(json.dumps({key: value for key, value in json.loads(text).items() if key != "seconds"}) + "\n")
        for name in sorted(units):
            phases = [
                {key: phase[key] for key in ("phase", "trace", "reserved", "error") if key in phase}
                for phase in units[name]["phases"]
            ]
            file.write(json.dumps({"unit": name, "phases": phases}) + "\n")


def table(real: Recording, simulated: Recording, names: list[str]) -> None:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for name in names:
        one, other = real[name], simulated[name]
        for kind in (name.split("/")[0], "all"):
            count = counts[kind]
            count["units"] += 1
            count["sequence"] += sequences(one) == sequences(other)
            for key in ("peak", "after", "reserved"):
                count[key] += numbers(one, key) == numbers(other, key)
            high, low = max(numbers(one, "peak"), default=0), max(numbers(other, "peak"), default=0)
            count["near"] += abs(high - low) <= high / 100
            count["high"] += high
            count["off"] += abs(high - low)
    print(
        f"{'kind':17}{'units':>7}{'sequence':>10}{'peak':>8}{'within 1%':>11}{'after':>8}{'reserved':>10}"
        f"{'sum of peaks off':>18}"
    )
    for kind, count in sorted(counts.items()):
        rates = [
            f"{100 * count[key] / count['units']:.1f}%" for key in ("sequence", "peak", "near", "after", "reserved")
        ]
        off = f"{100 * count['off'] / max(count['high'], 1):.2f}%"
        print(
            f"{kind:17}{count['units']:7}{rates[0]:>10}{rates[1]:>8}{rates[2]:>11}{rates[3]:>8}{rates[4]:>10}{off:>18}"
        )


def change(one: list[Any], other: list[Any]) -> str:
    """Return what differs first: the phase and both sequences from there, or the errors."""
    for (phase, trace, fault), (_, trace2, fault2) in zip(one, other, strict=False):
        if fault != fault2:
            return f"{phase}: {fault or 'no error'} -> {fault2 or 'no error'}"
        if trace != trace2:
            a, b = [max(x, -1) for x in trace], [max(x, -1) for x in trace2]
            said = []
            for tag, i, j, k, m in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
                if tag != "equal":
                    said.append(f"@{i} {a[i:j]} -> {b[k:m]}")
            return f"{phase}: " + "; ".join(said)[:300]
    return "" if len(one) == len(other) else "other phases"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("real")
    parser.add_argument("simulated", nargs="?", default="")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--show", default="")
    parser.add_argument("--kind", default="")
    parser.add_argument("--unseen", action="store_true")
    parser.add_argument("--reduce", nargs="*", default=[], help="recordings to write into REAL")
    options = parser.parse_args()
    if options.reduce:
        reduced(options.reduce, options.real)
        return
    real, simulated = read(options.real), read(options.simulated)
    both = [name for name in real if name in simulated and options.kind in name and not name.startswith("warm-up")]
    ended = [name for name in both if "ended" in real[name] or "ended" in simulated[name]]
    print(f"{len(real)} units of the GPU, {len(simulated)} simulated, {len(both)} in both")
    for name in ended:
        print(f"ended the process: {name}: {real[name].get('ended')} -> {simulated[name].get('ended')}")
    seen = [name for name in both if not unseen(name)]
    print("seen half")
    table(real, simulated, seen)
    if options.unseen:
        print("unseen half")
        table(real, simulated, [name for name in both if unseen(name)])
    reasons = json.loads(Path(__file__).with_name("operator_reasons.json").read_text())
    different = [name for name in seen if sequences(real[name]) != sequences(simulated[name])]
    unexplained = {name for name in different if not any(re.search(pattern, name) for pattern in reasons)}
    print(
        f"{len(different)} of the seen half differ, {len(unexplained)} of them without a reason in "
        "operator_reasons.json"
    )
    for name in seen:
        one, other = sequences(real[name]), sequences(simulated[name])
        if one != other and (options.list or name in unexplained):
            print(f"{name}: {change(one, other)}")
        if options.show and options.show in name:
            for label, unit in (("GPU", real[name]), ("simulated", simulated[name])):
                for phase in unit["phases"]:
                    rest = {key: value for key, value in phase.items() if key != "trace"}
                    print(f"{name} {label} {rest}\n    {phase['trace']}")


if __name__ == "__main__":
    main()
