"""Records the rows of rows.json on a real GPU.

    python benchmarks/accuracy/drawn_jax/record.py --out FILE [--seconds 75] [--at-once 8] [--rows 0,1,2]

Appends a line of JSON to FILE for each row as it ends, and a line with the compiled functions of its step, as text, to
FILE.hlo; FILE.marks has what was kept of rows that did not end.
Each row is a process of its own, and more than one run at once only while what they need on the CPU fits the GPU. A row
that ran out of memory beside others is run again, alone. XLA's autotuning allocates too, when a function is compiled,
so that the step's functions are compiled before the first step, and what is in use is kept before and after.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import importlib.metadata
import json
import os
import re
import signal
import subprocess
import sys
import time
import traceback
import zlib
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent.parent))

from tests_py.recordings import Recording  # noqa: E402

LONGEST = 60.0  # seconds of a row
ROOM = 48 << 30  # bytes that the rows that run at once need on the CPU
OUT_OF_MEMORY = 9  # exit code
TEXT = 600_000  # bytes of a row's functions, compressed
ENVIRONMENT = {
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "JAX_ENABLE_COMPILATION_CACHE": "false",
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "OMP_NUM_THREADS": "2",
}


def main() -> None:
    """Record what the arguments name."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=75)
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--rows", default="")
    parser.add_argument("--one", default="")  # what a process of its own records
    asked = parser.parse_args()
    if asked.one:
        found, texts = record(json.loads(asked.one), asked.out)
        write(asked.out, found)
        write(Path(f"{asked.out}.hlo"), {"row": found["row"], "functions": texts})
        sys.stdout.flush()
        os._exit(OUT_OF_MEMORY if found.get("out_of_memory") else 0)  # nothing that ends a client can fail or hang
    deadline = time.monotonic() + asked.seconds
    rows: list[dict[str, Any]] = json.loads(Recording("accuracy/drawn_jax/rows.json").read_text())["rows"]
    if asked.rows:
        rows = [rows[int(number)] for number in asked.rows.split(",")]
    failed = run_all(rows, asked.out, asked.at_once, deadline)
    run_all([one | {"alone": True} for one in failed], asked.out, 1, deadline)


def write(out: Path, found: dict[str, Any]) -> None:
    """Append a line. Lines of several processes do not mix, because each is one write."""
    file = os.open(out, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, (json.dumps(found) + "\n").encode())
    finally:
        os.close(file)


def run_all(asked: list[dict[str, Any]], out: Path, at_once: int, deadline: float) -> list[dict[str, Any]]:
    """Run so many processes at once until all ended or the deadline is there. Returns those that ran out of memory."""
    waiting, failed = list(asked), []
    running: dict[int, tuple[subprocess.Popen[bytes], dict[str, Any], float]] = {}
    while waiting or running:
        now = time.monotonic()
        taken = sum(one["cpu_bytes"] for _, one, _ in running.values())
        for one in list(waiting):
            if len(running) < at_once and now < deadline - 5 and (not running or taken + one["cpu_bytes"] <= ROOM):
                waiting.remove(one)
                taken += one["cpu_bytes"]
                words = [sys.executable, __file__, "--out", str(out), "--one", json.dumps(one)]
                process = subprocess.Popen(
                    words,
                    env=os.environ | ENVIRONMENT,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    start_new_session=True,
                )
                running[process.pid] = (process, one, now + LONGEST)
        if not running:
            break
        for pid, (process, one, until) in list(running.items()):
            code = process.poll()
            if code is None and now > min(until, deadline):
                stop(process)
                write(out, named(one) | {"error": "time limit"})
            elif code is None:
                continue
            elif code == OUT_OF_MEMORY:
                failed += [] if one.get("alone") else [one]
            elif code:
                write(out, named(one) | {"error": f"signal {-code}" if code < 0 else f"exit code {code}"})
            del running[pid]
        time.sleep(0.02)
    for one in waiting:
        write(out, named(one) | {"error": "not started: deadline"})
    return failed


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process and its children, and wait at most two seconds for that: one that the driver holds does not end at
    once.
    """
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(2)


def named(one: dict[str, Any]) -> dict[str, Any]:
    """Return what a line begins with."""
    found = {"row": one["row"], "model": f"{one['library']} {one['family']}"}
    return found | {"alone": True} if one.get("alone") else found


def record(one: dict[str, Any], out: Path) -> tuple[dict[str, Any], list[str]]:
    """Run a row in this process, and return the line and its compiled functions, as text."""
    begin = time.monotonic()
    found: dict[str, Any] = named(one)
    marks: list[dict[str, Any]] = []
    texts: list[str] = []

    def after(what: str) -> None:
        mark: dict[str, Any] = {"after": what, "seconds": round(time.monotonic() - begin, 2), "stats": stats()}
        marks.append(mark | {"used": used()})
        write(Path(f"{out}.marks"), {"row": one["row"], **marks[-1]})

    def before(program: Any) -> None:
        """Compile the functions of the step, as their first calls would."""
        compiled = []
        for function, arguments in program.compiled():
            executable = function.lower(*arguments).compile()
            compiled.append(sizes(executable.memory_analysis()))
            with contextlib.suppress(Exception):
                text = executable.as_text()
                compiled[-1] |= custom_calls(text)
                kept = base64.b64encode(zlib.compress(text.encode(), 9)).decode()
                texts.append(kept if len(kept) < TEXT else "")
        found["functions"] = compiled
        after("compiled")

    try:
        import jax

        from benchmarks.accuracy.drawn_jax import program

        jax.devices()
        after("started")
        program.run(one, after, before)
        found |= executables()
    except Exception as error:
        found["error"] = f"{type(error).__name__}: {error}"[:800]
        found["at"] = traceback.format_exc()[-1500:]
        found["out_of_memory"] = "RESOURCE_EXHAUSTED" in str(error)
        with contextlib.suppress(Exception):
            found["stats"] = stats()
    return found | {"marks": marks, "seconds": round(time.monotonic() - begin, 2), "versions": versions()}, texts


def stats() -> dict[str, Any] | None:
    """Return what JAX counts on the first device."""
    import jax

    counted: dict[str, Any] | None = jax.devices()[0].memory_stats()
    return counted


def sizes(analysis: Any) -> dict[str, Any]:
    """Return the sizes of a compiled function."""
    named = [name for name in dir(analysis) if name.endswith("_in_bytes") and not name.startswith("host_")]
    return {name: getattr(analysis, name) for name in named}


def custom_calls(text: str) -> dict[str, Any]:
    """Return how often a compiled function calls what library, and the largest workspace of each (an array of s8)."""
    calls: dict[str, list[int]] = {}
    for line in text.splitlines():
        target = re.search(r'custom_call_target="([^"]+)"', line)
        if target:
            spaces = [int(size) for size in re.findall(r"s8\[(\d+)\]", line.split("custom-call(")[0])]
            count, most = calls.get(target[1], [0, 0])
            calls[target[1]] = [count + 1, max([most, *spaces])]
    return {"calls": calls, "triton": text.count('"kind":"__triton')}


def executables() -> dict[str, Any]:
    """Return the sizes of what the client holds, the largest first."""
    import jax

    found: list[dict[str, Any]] = []
    try:
        for one in jax.devices()[0].client.live_executables():
            found.append({"name": one.hlo_modules()[0].name, **sizes(one.get_compiled_memory_stats())})
    except Exception as error:
        return {"executables": found[:40], "executables_error": f"{type(error).__name__}: {error}"[:300]}
    found.sort(key=lambda one: -one["temp_size_in_bytes"] - one["output_size_in_bytes"])
    return {"executables": found[:40], "executables_count": len(found)}


def versions() -> dict[str, Any]:
    """Return what ran."""
    found: dict[str, Any] = {"python": sys.version.split()[0]}
    for name in (
        "jax",
        "jaxlib",
        "jax-cuda13-plugin",
        "flax",
        "equinox",
        "optax",
        "diffrax",
        "nvidia-cudnn-cu13",
        "nvidia-cublas",
    ):
        with contextlib.suppress(Exception):
            found[name] = importlib.metadata.version(name)
    with contextlib.suppress(Exception):
        import jax

        found |= {"gpu": jax.devices()[0].device_kind, "platform": jax.devices()[0].client.platform_version}
    with contextlib.suppress(Exception):
        import pynvml

        found["driver"] = pynvml.nvmlSystemGetDriverVersion()
    return found


def used() -> dict[str, Any]:
    """Return the bytes that NVML counts for this process, or all that it lists if this process is not among them."""
    try:
        import pynvml

        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        listed = {one.pid: one.usedGpuMemory for one in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)}
        card = int(pynvml.nvmlDeviceGetMemoryInfo(handle).used)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:200]}
    return {"process": listed[os.getpid()]} if os.getpid() in listed else {"all": list(listed.values()), "card": card}


if __name__ == "__main__":
    main()
