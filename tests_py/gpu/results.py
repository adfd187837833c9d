"""The results of the unattended run: one file that is whole after each step, and the page that is written from it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from steps import Step

SCHEMA = 2


class Results:
    """The steps that are done, on which machine each ran, and which steps a call ended in.

    ``begun`` is the step that is running. If a later call finds it in the file, the call that ran it was ended: the
    step may be what ended it, so it runs after the others then.
    """

    def __init__(self, path: Path, wheel: str | None, machine: str) -> None:
        self.path = path
        digest = hashlib.sha256(Path(wheel).read_bytes()).hexdigest() if wheel else ""
        self.data: dict[str, Any] = {
            "schema": SCHEMA,
            "wheel": digest,
            "machines": [],
            "cut": {},
            "begun": "",
            "steps": {},
        }
        with contextlib.suppress(FileNotFoundError):
            self.data |= self._found(path.read_text(), digest)
        if machine not in self.data["machines"]:
            self.data["machines"].append(machine)
        self.machine = self.data["machines"].index(machine)
        if self.data["begun"]:
            self.data["cut"][self.data["begun"]] = self.data["cut"].get(self.data["begun"], 0) + 1

    def _found(self, text: str, digest: str) -> dict[str, Any]:
        """What the file has, if it is of this wheel; else it is kept beside."""
        with contextlib.suppress(ValueError, KeyError, TypeError):
            found = json.loads(text)
            if found["schema"] == SCHEMA and found["wheel"] == digest:
                return dict(found)
        aside = self.path.with_name(f"{self.path.stem}-{time.strftime('%Y%m%d-%H%M%S')}.json")
        self.path.rename(aside)
        print(f"{self.path} has results of another wheel or version; it is {aside} now", flush=True)
        return {}

    @property
    def steps(self) -> dict[str, dict[str, Any]]:
        """What came of each step."""
        return dict(self.data["steps"])

    def order(self, todo: list[Step]) -> list[Step]:
        """Steps that a call ended in run after the others."""
        return sorted(todo, key=lambda step: self.data["cut"].get(step.name, 0))

    def begin(self, name: str) -> None:
        """Write that a step runs now."""
        self.data["begun"] = name
        self._save()

    def done(self, name: str, found: dict[str, Any]) -> None:
        """Write what came of it."""
        self.data["steps"][name] = {
            "machine": self.machine,
            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            **found,
        }
        self.data["begun"] = ""
        self._save()

    def _save(self) -> None:
        """Replace the file at once, so that a call that is ended leaves a whole one."""
        beside = self.path.with_suffix(".new")
        with beside.open("w") as file:
            file.write(json.dumps(self.data, indent=1) + "\n")
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self.path)

    def page(self, benchmark: Any) -> str:
        """benchmarks/reports/gpu-results.md."""
        steps = self.data["steps"]
        dates = sorted({step["at"][:10] for step in steps.values()})
        machines = self.data["machines"]
        lines = ["# On a GPU", "", f"Written by `make gpu-all` on {' and '.join(dates)}:", ""]
        lines += [f"{number + 1}. {machine}" for number, machine in enumerate(machines)]
        count = Counter(step["result"] for step in steps.values())
        lines += [
            "",
            ", ".join(f"{count[result]} {result}" for result in ("passed", "left out", "FAILED", "timed out")) + ".",
            "",
        ]
        column = ("machine | ", "|---") if len(machines) > 1 else ("", "")
        lines += [f"| step | {column[0]}result | s | figures |", f"|---{column[1]}|---|---|---|"]
        for name, step in steps.items():
            if not name.startswith("bench"):
                where = f"{step['machine'] + 1} | " if len(machines) > 1 else ""
                lines.append(
                    f"| {name.replace('_', ' ')} | {where}{step['result']} | {step['seconds']:.1f} | {_told(step)} |"
                )
        return "\n".join(lines + self._speed(benchmark)) + "\n"

    def _speed(self, benchmark: Any) -> list[str]:
        """The benchmark's sections, from the machine that has most of its rounds: figures of different ones make no
        ratio.
        """
        measured = {
            name: step
            for name, step in self.data["steps"].items()
            if name.startswith("bench") and step["result"] == "passed"
        }
        if not measured:
            return []
        most = Counter(step["machine"] for step in measured.values()).most_common(1)[0][0]
        rounds: dict[str, list[dict[str, float]]] = {}
        for name, step in measured.items():
            if step["machine"] == most and name != "bench: limit":
                rounds.setdefault(name.partition(": ")[2], []).append(step["figures"])
        where = ["", f"The following was measured on machine {most + 1}."] if len(self.data["machines"]) > 1 else []
        limit = measured.get("bench: limit", {"machine": None})
        return [
            *where,
            "",
            *benchmark.lines_of(rounds, limit["figures"] if limit["machine"] == most else None),
            *self._not_measured(),
        ]

    def _not_measured(self) -> list[str]:
        failed = [
            f"{name}: {step['result']}"
            for name, step in self.data["steps"].items()
            if name.startswith("bench") and step["result"] in ("FAILED", "timed out")
        ]
        return ["", f"Not measured: {', '.join(failed)}."] if failed else []


def _told(step: dict[str, Any]) -> str:
    """A step's figures, or the last line that it printed, for a table."""
    figures = step.get("figures") or {}
    if not isinstance(figures, dict):
        return _cell(str(figures))
    short = {key: f"{value:.4g}" if isinstance(value, float) else str(value) for key, value in figures.items()}
    told = ", ".join(f"{key} {value}" for key, value in short.items() if "\n" not in value)
    last = [line for line in step.get("output", "").splitlines() if line.strip() and not line.startswith("{")][-1:]
    return _cell("; ".join(filter(None, [told, step.get("why", ""), *last])))


def _cell(text: str) -> str:
    text = " ".join(text.split()).replace("|", "\\|")
    return text if len(text) <= 600 else text[:600] + " ..."
