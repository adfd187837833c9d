"""Change a package in 30 places, one after another, and see whether its tests notice: ``run.py bfc [--minutes 40]``.

The places are drawn by a hash of SEED and of what stands there, a fifth of them of each kind: a comparison (``<``
becomes ``<=``), a constant (one more), a condition (negated, or ``&&`` for ``||``), a returned error (none; in Python
nothing is raised), a call for its effect (removed). What does not compile does not count, nor do checkers of
invariants, which only tests call. Nothing in the work tree is edited: Go gets the changed file by ``-overlay``, and
Python and C have an environment of their own in build/mutants.

The verdicts are in results/PACKAGE.txt, a line each, and a further run goes on where the last one ended. It tries
survivors again. People may make of "survived" an "equivalent", and write behind the last bar why no test can notice:
such a line stays, and does not count. A change whose tests take too long counts as killed.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import venv
from dataclasses import dataclass
from pathlib import Path

from python_sites import Site, c_sites, python_sites

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).resolve().parent / "results"
WORK = ROOT / "build" / "mutants"
SEED = "1"
COUNT = 30
KINDS = ("comparison", "constant", "condition", "error", "call")
# Seconds that a test command may take at least, and beyond that by how many times what it takes without a change, so
# that a busy machine kills nothing.
LEAST_TIMEOUT = 60
PATIENCE = 5

SLOW_BFC = (
    "Peak|ManyRandom|LittleAddress|TestAllSmall|AllInterleavings|AgainstNaive|LawsFit|WhatWasServed|StitchingServes"
)
SLOW_LEDGER = "TestSoak|AStoppedWaiter|AKill|ReadLocks|RandomRequests|AContended"
SLOW_DEVMGR = "ManyStreams|HandOver|TestSoak|ResetBeside|StitchingOn|OneStream"
BFC = [f"./tests_go/pool/bfc -skip {SLOW_BFC}", f"./tests_go/pool/bfc -run {SLOW_BFC}"]
GUARD = " ".join(
    f"tests_py/guard/{name}.py" if "/" in name else f"tests_py/guard/test_{name}.py"
    for name in (
        *("exports", "entry_points", "limits/test_array_formats", "limits/test_pool_segments", "outside_pools"),
        *("limits/test_where_memory_is", "limits/test_contexts", "limits/test_ended_contexts", "limits/test_rounding"),
        *("locks", "budget", "early_calls", "prototypes"),
    )
)
# The tests near each package, the quickest first. The walks over every hand-over take minutes, and find what no short
# test does.
TESTS = {
    "bfc": BFC,
    "chunks": ["./tests_go/pool/chunks", *BFC],
    "suballoc": ["./tests_go/pool/suballoc", BFC[0]],
    "devmgr": [
        f"./tests_go/devices/devmgr -skip {SLOW_DEVMGR}",
        "./tests_go/devices/devmgr -run ManyStreams|TestSoak|ResetBeside|StitchingOn|OneStream",
    ],
    "ledger": [f"./tests_go/lease/ledger -skip {SLOW_LEDGER}", f"./tests_go/lease/ledger -run {SLOW_LEDGER}"],
    "config": ["./tests_go/tf/config"],
    "caching": ["./tests_go/plan/caching", "./tests_go/plan/plan", "./tests_go/plan/rewind"],
    "rewind": ["./tests_go/plan/rewind"],
    "plan": ["./tests_go/plan/plan"],
    "sharing": [
        "tests_py/guard/test_driver_limits.py tests_py/guard/test_budget.py tests_py/guard/test_nested_environment.py "
        "tests_py/guard/test_scripts.py tests_py/leases/test_lease_on_instances.py "
        "tests_py/leases/test_context_memory.py tests_py/jobs/test_env.py tests_py/leases/test_ledger_command.py "
        "tests_py/jobs/test_python_options.py",
        "tests_py/leases/test_lease.py tests_py/cli/test_ps.py tests_py/leases/test_ledger.py",
        "tests_py/jobs/test_startup.py "
        "tests_py/memory/test_cuda_driver.py::test_a_lease_of_some_gpus_comes_too_late_when_cuda_has_started",
        "tests_py/simulation/test_shared_cards.py tests_py/guard/test_guard_command.py",
        "tests_py/leases/test_leased_run.py",
        "tests_py/guard/test_unreachable.py",
    ],
    "planning": [
        "tests_py/plans/test_plan.py tests_py/plans/test_diff.py tests_py/plans/test_report.py "
        "tests_py/cli/test_html.py tests_py/plans/test_message.py",
        "tests_py/memory/test_out_of_memory.py tests_py/plans/test_verify.py "
        "tests_py/plans/test_snapshot_out_of_memory.py",
    ],
    "guard": [
        GUARD,
        "tests_py/guard tests_py/simulation/test_simulated_guard.py --ignore tests_py/guard/test_unreachable.py "
        f"--ignore tests_py/guard/test_driver_limits.py --ignore {GUARD.replace(' ', ' --ignore ')}",
        "tests_py/guard/test_unreachable.py",
    ],
}


@dataclass
class Verdict:
    """A line of results: what became of a site. ``why`` names the test that failed, or says why none can."""

    verdict: str
    site: str
    why: str

    def __str__(self) -> str:
        return f"{self.verdict:10} | {self.site} | {self.why}"


class GoTests:
    """Changes of a package below gocore."""

    def __init__(self, package: str, _: int) -> None:
        self.folder = next(ROOT.glob(f"gocore/*/{package}")).relative_to(ROOT).as_posix()
        self.commands = TESTS[package]
        self.timeouts = [3600.0] * len(self.commands)

    def sites(self) -> list[Site]:
        """All places."""
        done = subprocess.run(
            ["go", "run", "./tests_go/mutants", self.folder], cwd=ROOT, stdout=subprocess.PIPE, check=True
        )
        return [Site(**site) for site in json.loads(done.stdout)]

    def test(self, site: Site | None) -> tuple[str, str]:
        """Run the tests with a change, or without one: killed and by what, survived, or invalid if it does not
        compile.
        """
        with tempfile.TemporaryDirectory() as folder:
            overlay = Path(folder, "overlay.json")
            changed = Path(folder, "changed.go")
            if site:
                changed.write_bytes(mutated(site))
            overlay.write_text(json.dumps({"Replace": {str(ROOT / site.path): str(changed)} if site else {}}))
            for nth, command in enumerate(self.commands):
                limit = self.timeouts[nth]
                go = [
                    "go",
                    "test",
                    f"-overlay={overlay}",
                    "-tags=invariants",
                    "-failfast",
                    "-vet=off",
                    f"-timeout={limit:.0f}s",
                ]
                begin = time.monotonic()
                status, output = run([*go, *command.split()], {"RAPID_SEED": "1", "RAPID_NOFAILFILE": "1"}, limit + 60)
                if not site:
                    self.timeouts[nth] = max(LEAST_TIMEOUT, PATIENCE * (time.monotonic() - begin))
                if "[build failed]" in output or "[setup failed]" in output:
                    return "invalid", output
                if status:
                    failed = re.search(r"--- FAIL: (\S+)", output) or re.search(
                        r"^(panic: test timed out|panic: .{0,50})", output, re.M
                    )
                    return "killed", failed.group(1) if failed else output.strip().splitlines()[-1][:60]
        return "survived", ""


class PythonTests:
    """Changes of a package of python/gpuconf, or of the guard's C files, tested in an environment with a package of its
    own.
    """

    def __init__(self, package: str, workers: int) -> None:
        self.package = package
        self.workers = ["-n", str(workers), "--dist", "loadfile"] if workers > 1 else []
        self.commands = TESTS[package]
        self.timeouts = [3600.0] * len(self.commands)
        self.site_packages = self.environment()

    def environment(self) -> Path:
        """Make the environment: its own copy of the installed package, and of all else what .venv has."""
        installed = next((ROOT / ".venv/lib").glob("python*/site-packages"))
        shutil.rmtree(WORK / "venv", ignore_errors=True)
        venv.create(WORK / "venv", symlinks=True)
        site_packages = WORK / "venv" / installed.relative_to(ROOT / ".venv")
        shutil.copytree(installed / "gpuconf", site_packages / "gpuconf", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(ROOT / "python/gpuconf", site_packages / "gpuconf", dirs_exist_ok=True)
        for metadata in installed.glob("gpuconf-*.dist-info"):
            shutil.copytree(metadata, site_packages / metadata.name)
        (site_packages / "others.pth").write_text(f"{installed}\n")
        script = (ROOT / ".venv/bin/gpuconf").read_text().split("\n", 1)[1]
        (WORK / "venv/bin/gpuconf").write_text(f"#!{WORK}/venv/bin/python\n{script}")
        (WORK / "venv/bin/gpuconf").chmod(0o755)
        return site_packages

    def sites(self) -> list[Site]:
        """All places."""
        os.chdir(ROOT)
        return (
            c_sites(Path("gocore/lease/guard"))
            if self.package == "guard"
            else python_sites(Path("python/gpuconf", self.package))
        )

    def test(self, site: Site | None) -> tuple[str, str]:
        """Run the tests with a change, or without one: killed and by what, survived, or invalid if it does not
        compile.
        """
        target = (
            self.site_packages / Path(site.path).relative_to("python") if site and self.package != "guard" else None
        )
        try:
            if site and target:
                target.write_bytes(mutated(site))
            elif self.package == "guard" and not self.build_guard(site):
                return "invalid", ""
            near = nearest(self.commands, site) if site else ""
            for nth, command in enumerate([near, *self.commands] if near else self.commands, -1 if near else 0):
                begin = time.monotonic()
                python = [
                    str(WORK / "venv/bin/python"),
                    "-m",
                    "pytest",
                    "-q",
                    "-x",
                    "--tb=line",
                    "-p",
                    "no:cacheprovider",
                    "-p",
                    "no:randomly",
                    *self.workers,
                ]
                status, output = run(
                    [*python, *command.split()], {"PYTHONDONTWRITEBYTECODE": "1"}, self.timeouts[max(nth, 0)]
                )
                if not site:
                    self.timeouts[nth] = max(LEAST_TIMEOUT, PATIENCE * (time.monotonic() - begin))
                if status:
                    failed = re.search(r"^(?:FAILED|ERROR) \S*/(\S+)", output, re.M)
                    return "killed", failed.group(1)[:90] if failed else output.strip().splitlines()[-1][:60]
        finally:
            if site and target:
                shutil.copy(ROOT / site.path, target)
        return "survived", ""

    def build_guard(self, site: Site | None) -> bool:
        """Build the guard with the changed file in place of its own; report whether it compiles."""
        sys.path.insert(0, str(ROOT / "pybind" / "build"))
        import hatch_build

        with tempfile.TemporaryDirectory() as folder:
            for name, folders in hatch_build.GUARD.items():
                files = []
                for path in sorted(path for source in folders for path in ROOT.joinpath(source).glob("*.c")):
                    if site and path == ROOT / site.path:
                        files.append(Path(folder, path.name))
                        files[-1].write_bytes(mutated(site))
                    else:
                        files.append(path)
                include = [f"-I{ROOT / source}" for source in folders]
                command = [
                    "cc",
                    *hatch_build.GUARD_FLAGS,
                    *include,
                    f"-Wl,-soname,{name}",
                    "-o",
                    f"{folder}/{name}",
                    *map(str, files),
                ]
                if subprocess.run(
                    [*command, "-lpthread", "-ldl"], cwd=ROOT, stderr=subprocess.DEVNULL, check=False
                ).returncode:
                    return False
                for installed in self.site_packages.joinpath("gpuconf").rglob(name):
                    installed.unlink()
                    shutil.copy(f"{folder}/{name}", installed)
        return True


def nearest(commands: list[str], site: Site) -> str:
    """The test file that is named after the changed one, else up to two that name it: they come before all others."""
    stem = Path(site.path).stem
    files = [
        word
        for command in commands
        for word in command.split()
        if word.endswith(".py") and ROOT.joinpath(word).is_file()
    ]
    named = [file for file in files if Path(file).stem == f"test_{stem.strip('_')}"]
    return " ".join(named or [file for file in files if re.search(rf"\b{stem}\b", ROOT.joinpath(file).read_text())][:2])


def mutated(site: Site) -> bytes:
    """The file's bytes with the site's change."""
    source = ROOT.joinpath(site.path).read_bytes()
    return source[: site.start] + site.new.encode() + source[site.end :]


def run(command: list[str], environment: dict[str, str], timeout: float) -> tuple[int, str]:
    """Run a test command. Returns its status and output; what takes too long is ended, with all its processes."""

    def prepare() -> None:
        # Background jobs of a script are started with an interrupt ignored, and so would be the tests' programs, which
        # await one.
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        Path("/proc/self/oom_score_adj").write_text("1000")  # a changed loop may take memory without end

    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **environment}, stdout=output, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL, preexec_fn=prepare, start_new_session=True,
        )  # fmt: skip
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            status = -1
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        process.wait()
        output.seek(0)
        return status, output.read().decode(errors="replace") + ("\ntimeout" if status == -1 else "")


def drawn(sites: list[Site]) -> dict[str, list[Site]]:
    """The sites by kind, in the order in which they are drawn. Of several with one key only the first takes part."""
    unique = {site.key: site for site in reversed(sites)}

    def rank(site: Site) -> str:
        return hashlib.sha256(f"{SEED} {site.key}".encode()).hexdigest()

    return {kind: sorted((site for site in unique.values() if site.kind == kind), key=rank) for kind in KINDS}


def read(path: Path) -> dict[str, Verdict]:
    """The verdicts of a results file by site."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    parts = [line.split(" | ") for line in lines if not line.startswith("#")]
    return {
        " | ".join(part[1:-1]): Verdict(part[0].strip(), " | ".join(part[1:-1]), part[-1].strip()) for part in parts
    }


def write(path: Path, package: str, verdicts: list[Verdict]) -> str:
    """Write a results file; returns its first line, which counts."""
    count = {
        name: sum(verdict.verdict == name for verdict in verdicts) for name in ("killed", "survived", "equivalent")
    }
    tried = count["killed"] + count["survived"]
    share = f" ({100 * count['killed'] / tried:.0f} %)" if tried else ""
    head = f"# {package}: {count['killed']} of {tried} killed{share}, {count['equivalent']} equivalent, seed {SEED}"
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        "\n".join([head, *map(str, sorted(verdicts, key=lambda each: (each.verdict, each.site)))]) + "\n",
        encoding="utf-8",
    )
    return head


def main() -> int:
    """Try the changes of one package; the exit status is 1 if fewer than 85 % are killed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", choices=TESTS)
    parser.add_argument("--minutes", type=float, default=40)
    parser.add_argument("--nice", type=int, default=15, help="its priority; beside other work, 15 does not get far")
    parser.add_argument("--workers", type=int, default=1, help="processes that run the Python tests")
    parser.add_argument(
        "--timeout", type=float, help="seconds of a test command; without it the tests run once unchanged"
    )
    options = parser.parse_args()
    os.nice(options.nice)
    path = RESULTS / f"{options.package}.txt"
    kind = GoTests if any(ROOT.glob(f"gocore/*/{options.package}/*.go")) else PythonTests
    tests = kind(options.package, options.workers)
    known = read(path)
    if options.timeout:
        tests.timeouts = [options.timeout] * len(tests.timeouts)
    verdict, why = ("survived", "") if options.timeout else tests.test(None)
    if verdict != "survived":
        print(f"the tests of {options.package} fail without a change: {why}", file=sys.stderr)
        return 1
    end = time.monotonic() + 60 * options.minutes
    order = drawn(tests.sites())
    verdicts = {site.key: known[site.key] for sites in order.values() for site in sites if site.key in known}
    head = "nothing tried"
    for _ in range(COUNT // len(KINDS)):
        for sites in order.values():
            while sites and time.monotonic() < end:
                site = sites.pop(0)
                before = known.get(site.key)
                if before is None or before.verdict == "survived":
                    verdict, why = tests.test(site)
                    if verdict == "invalid":
                        continue
                    verdicts[site.key] = Verdict(verdict, site.key, why or (before.why if before else ""))
                    print(f"{site.path}:{site.line}: {verdicts[site.key]}", flush=True)
                    head = write(path, options.package, list(verdicts.values()))
                break
    head = write(path, options.package, list(verdicts.values()))
    print(head)
    missing = COUNT - len(verdicts)
    if missing > 0:
        print(
            f"{missing} places are not tried: the time is over, or there are no more of a kind. Run this again to go "
            "on."
        )
    killed, tried = map(int, re.findall(r": (\d+) of (\d+) killed", head)[0])
    return int(killed < 0.85 * tried)


if __name__ == "__main__":
    sys.exit(main())
