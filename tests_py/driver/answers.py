# SPDX-License-Identifier: Apache-2.0
"""The committed answers of NVIDIA's drivers, and how an observation follows from them.

What all drivers have in common is said once. That the drivers' answers to cuGetProcAddress follow from their list of
forms is not an assumption: the recorder compares each of them with `resolver_line`.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from recordings import Recording

from driver.observe import FLAGS, VERSIONS, Observation

FILE = Recording("driver/answers.json")
PER_THREAD = 2  # CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM


class Form(NamedTuple):
    """A function that cuGetProcAddress returns for its base name, from this version on."""

    base: str
    exported: str
    version: int
    # "ANY", else the streams for which another form of the base name is not returned: "LEGACY" or "PER_THREAD".
    streams: str


def resolver_line(forms: list[Form], cuda: int, flags: int) -> str:
    """Return what a driver of CUDA version `cuda` answers for a base name with these forms, as prober.c prints it."""
    wanted = "PER_THREAD" if flags & PER_THREAD else "LEGACY"
    there = [form for form in forms if form.version <= cuda]
    usable = sorted((form.version, form.exported) for form in there if form.streams in ("ANY", wanted))
    second = cuda >= 12000  # cuGetProcAddress_v2
    line, before = [], ""
    for version in VERSIONS:
        found = [name for since, name in usable if since <= version % 2**32]
        if flags not in (0, 1, 2, 3):
            answer = "1,-,1,-1,-" if second else "1,-,-1,-1,-"
        elif found:
            answer = f"0,{found[-1]},0,0,{found[-1]}" if second else f"0,{found[-1]},-1,-1,-"
        else:
            answer = f"500,-,0,{2 if there else 1},NULL" if second else "500,-,-1,-1,-"
        if answer != before:
            line.append(f"{version}={answer}")
        before = answer
    return " ".join(line)


def forms_of(observation: Observation) -> set[Form]:
    """Read the forms off the answers to flags 0 and 2."""
    found: dict[tuple[str, str, int], set[int]] = {}
    for (name, flags), line in observation.resolver.items():
        if flags in (0, PER_THREAD):
            for step in line.split():
                version, answer = step.split("=")
                exported = answer.split(",")[1]
                if int(version) >= 0 and answer.startswith("0,"):
                    found.setdefault((name, exported, int(version)), set()).add(flags)
    kinds = {(0,): "LEGACY", (PER_THREAD,): "PER_THREAD", (0, PER_THREAD): "ANY"}
    return {Form(*what, kinds[tuple(sorted(flags))]) for what, flags in found.items()}


class Answers:
    """The committed answers."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.drivers: dict[str, dict[str, str]] = data["drivers"]
        self.forms = [Form(*row) for row in data["forms"]]
        self.unresolved: dict[str, str] = data["unresolved"]
        self.calls: dict[str, dict[str, str]] = data["calls"]
        self.errors: dict[str, dict[str, str]] = data["errors"]

    @classmethod
    def load(cls) -> Answers:
        """Read the committed file."""
        return cls(json.loads(FILE.read_text()))

    def cuda(self, driver: str) -> int:
        """The CUDA version of a driver."""
        return int(self.drivers[driver]["version"].split()[1])

    def exports(self, driver: str) -> frozenset[str]:
        """What a driver exports: all forms of its version and before, and what no base name leads to."""
        forms = {form.exported for form in self.forms if form.version <= self.cuda(driver)}
        return frozenset(forms | {name for name, drivers in self.unresolved.items() if driver in drivers.split()})

    def observation(self, driver: str, names: list[str]) -> Observation:
        """Return what `observe` saw of a driver, with the resolver's answers for names."""
        by_base: dict[str, list[Form]] = {}
        for form in self.forms:
            by_base.setdefault(form.base, []).append(form)
        resolver = {
            (name, flags): resolver_line(by_base.get(name, []), self.cuda(driver), flags)
            for name in names
            for flags in FLAGS
        }
        calls = {
            name: tuple(value.split())
            for name, values in self.calls.items()
            for value, of in values.items()
            if driver in of.split()
        }
        errors = {}
        for number, values in self.errors.items():
            for value, of in values.items():
                if driver in of.split():
                    result, name, other, text = value.split("\t")
                    errors[int(number)] = (result, name, other, text)
        default = errors.pop(10**6)
        errors = {number: errors.get(number, default) for number in range(-1, 1101)}
        return Observation(self.exports(driver), self.drivers[driver], resolver, calls, errors)


def merge(seen: dict[str, Observation]) -> dict[str, Any]:
    """Return the answers of several drivers, each fact once."""
    forms = sorted(
        set().union(*(forms_of(one) for one in seen.values())), key=lambda form: (form.base, form.version, form.streams)
    )
    resolved = {form.exported for form in forms}
    unresolved: dict[str, list[str]] = {}
    calls: dict[str, dict[str, list[str]]] = {}
    errors: dict[str, dict[str, list[str]]] = {}
    for driver, one in seen.items():
        for name in one.exports - resolved:
            unresolved.setdefault(name, []).append(driver)
        for name, results in one.calls.items():
            calls.setdefault(name, {}).setdefault(" ".join(results), []).append(driver)
        default = one.errors[-1]
        errors.setdefault(str(10**6), {}).setdefault("\t".join(default), []).append(driver)
    known = {number for one in seen.values() for number, answer in one.errors.items() if answer != one.errors[-1]}
    for number in sorted(known):
        for driver, one in seen.items():
            errors.setdefault(str(number), {}).setdefault("\t".join(one.errors[number]), []).append(driver)

    def joined(table: dict[str, dict[str, list[str]]]) -> dict[str, dict[str, str]]:
        return {name: {value: " ".join(of) for value, of in values.items()} for name, values in sorted(table.items())}

    return {
        "drivers": {driver: one.process for driver, one in seen.items()},
        "forms": [list(form) for form in forms],
        "unresolved": {name: " ".join(of) for name, of in sorted(unresolved.items())},
        "calls": joined(calls),
        "errors": joined(errors),
    }


def text_of(data: dict[str, Any]) -> str:
    """Return data as JSON with one row a line."""
    parts = []
    for section, rows in data.items():
        if isinstance(rows, dict):
            inner = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in rows.items())
            parts.append(f"{json.dumps(section)}: {{\n{inner}\n}}")
        else:
            inner = ",\n".join(f"  {json.dumps(row)}" for row in rows)
            parts.append(f"{json.dumps(section)}: [\n{inner}\n]")
    return "{\n" + ",\n".join(parts) + "\n}\n"
