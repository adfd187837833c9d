# SPDX-License-Identifier: Apache-2.0
"""What a libcuda.so.1 answers without a device, asked by prober.c in processes of its own.

NVIDIA's driver must not be loaded by a test, which could crash with it.
"""

import os
import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent

# prober.c has the same.
VERSIONS = tuple(
    int(v)
    for v in re.findall(
        r"-?\d+",
        re.sub(
            r"INT_M\w+|.*?= \{", "", re.search(r"versions\[\] = \{(.*?)\}", (HERE / "prober.c").read_text(), re.S)[1]
        ),
    )
)  # type: ignore[index]
VERSIONS = (-(2**31), *VERSIONS, 2**31 - 1)
FLAGS = (0, 1, 2, 3, 4, 8)

# What no driver knows, beside the names of functions. "-" stands for the empty name.
STRANGE = (
    "-",
    "cu",
    "cuNoSuchFunction",
    "cumemalloc",
    "CUMEMALLOC",
    "cuMemAlloc ",
    "printf",
    "cuMemAlloc_ptsz",
    "cuMemcpyHtoD_v2_ptds",
)

# The six ways to call a function: what was called before, and the arguments.
WAYS = tuple(f"{when} cuInit, {what}" for when in ("before", "after") for what in ("0", "a buffer and 0", "buffers"))


@dataclass(frozen=True)
class Observation:
    """All answers of one library."""

    exports: frozenset[str]
    process: dict[str, str]  # versions, cuInit, fork, dlclose
    resolver: dict[tuple[str, int], str]  # (name, flags) -> "version=answer ...", as prober.c prints it
    calls: dict[str, tuple[str, ...]]  # exported name -> a result or a signal ("s11") for each of WAYS
    errors: dict[int, tuple[str, str, str, str]]  # number -> result and name, result and text

    @property
    def cuda(self) -> int:
        """The driver's CUDA version, such as 12040."""
        return int(self.process["version"].split()[1])


def build_prober(folder: Path) -> Path:
    """Compile prober.c into folder."""
    prober = folder / "prober"
    compiler = shlex.split(os.environ.get("CC", "cc"))
    subprocess.run(
        [*compiler, "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-o", prober, HERE / "prober.c", "-ldl"],
        check=True,
    )
    return prober


def exports_of(library: Path) -> frozenset[str]:
    """Return the names that begin with cu and that the library defines."""
    out = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    return frozenset(name for line in out.splitlines() if (name := line.split()[-1]).startswith("cu"))


def stubs_of(library: Path) -> frozenset[str]:
    """Return what the simulator only exports: its stubs are weak (exports.c)."""
    out = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    return frozenset(line.split()[-1] for line in out.splitlines() if line.split()[-2] == "W")


def base_name(name: str) -> str:
    """Return a function's name without its version and stream suffix."""
    return re.sub(r"(_v\d+)?(_ptsz|_ptds)?$", "", name)


def ask(prober: Path, opened: Path | str, what: str, lines: list[str], environment: dict[str, str] | None) -> list[str]:
    """Run the prober, as another user where this is root, and return its lines."""
    as_other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"] if os.geteuid() == 0 else []
    done = subprocess.run(
        [*as_other, prober, opened, what],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
        cwd="/",
        env={"PATH": os.defpath} | (environment or {}),
    )
    if done.returncode != 0:
        raise RuntimeError(f"prober {opened} {what}: exit code {done.returncode}: {done.stderr.strip()}")
    return done.stdout.splitlines()


def observe(
    library: Path,
    prober: Path,
    names: frozenset[str],
    calls: frozenset[str],
    environment: dict[str, str] | None = None,
    opened: str | None = None,
) -> Observation:
    """Ask library for names in the resolver, and call what of calls it exports.

    With opened, the processes open that name in place of the library's path.
    """

    def told(what: str, lines: list[str]) -> list[str]:
        return ask(prober, opened or library, what, lines, environment)

    exports = exports_of(library)
    asked = sorted({base_name(name) for name in names} | names | set(STRANGE))
    resolver = {}
    for line in told("resolve", asked):
        name, flags, answers = re.fullmatch(r"(.*?) (\d+) (-2147483648=.*)", line).groups()  # type: ignore[union-attr]
        resolver[name, int(flags)] = answers
    results = (line.split() for line in told("call", sorted(calls & exports)))
    errors = {}
    for line in told("errors", []) if "cuGetErrorName" in exports else []:
        number, *answer = line.split("\t")
        errors[int(number)] = (answer[0], answer[1], answer[2], answer[3])
    process = dict(line.split(" ", 1) for line in told("process", []))
    return Observation(exports, process, resolver, {name: tuple(answer) for name, *answer in results}, errors)
