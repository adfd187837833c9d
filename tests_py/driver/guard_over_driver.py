# SPDX-License-Identifier: Apache-2.0
"""Run the guard over NVIDIA's real drivers, without a GPU: `make check WHAT=real-driver`.

    python tests_py/driver/guard_over_driver.py [BRANCH ...]

A program under the guard must see what it sees without: every symbol, every answer of both resolvers, every return
code, error name and text. What the guard stands before must come from the guard, by each way to look it up, and all
else from the
driver.
"""

import os
import re
import sys
import tempfile
from fnmatch import fnmatchcase
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from gpuconf.jobs import budget as _budget  # noqa: E402

from driver import compare, observe, record  # noqa: E402
from driver.answers import Answers  # noqa: E402

GUARD = "libgpuconf-guard.so"
CARD = "GPU-f0ced00d-1234-4567-89ab-cdef01234500"  # any: there is none

# What differs on purpose, with a reason each.
MEANT = {
    "process after-dlclose": "the guard holds the driver",
}


def hooks() -> set[str]:
    """Return the functions of CUDA that the guard stands before, from its table."""
    text = (HERE.parent.parent / "gocore" / "lease" / "guard" / "functions.h").read_text()
    tables = re.findall(r"#define (\w+)_HOOKS\(X\)(.*?)(?=\n\n|\n#)", text, re.S)
    names = {name for table, rows in tables if table != "NVML" for name in re.findall(r"\bX\((cu\w+),", rows)}
    return names | {"cuGetProcAddress", "cuGetProcAddress_v2"}


def for_the_other_user(environment: dict[str, str]) -> None:
    """Give the job's folder to the user as whom the probing processes run, where this runs as root."""
    if os.geteuid() == 0:
        folder = Path(environment["GPUCONF_GUARD"]).parent
        for path in (folder, *folder.iterdir()):
            os.chown(path, 65534, 65534, follow_symlinks=False)


def wrong_symbols(prober: Path, exports: frozenset[str], library: Path, environment: dict[str, str]) -> dict[str, str]:
    """Return where dlsym finds the wrong function, by the handle, RTLD_DEFAULT or RTLD_NEXT."""
    lines = observe.ask(prober, "libcuda.so.1", "symbols", sorted(exports), environment)
    ours, found = hooks(), {}
    for line in lines:
        name, *files = line.split()
        wanted = GUARD if name in ours else library.name
        if set(files) != {wanted} or len(files) != 3:
            found[f"symbol {name}"] = f"{files}, not {wanted}"
    return found


def check(branch: str, library: Path, prober: Path) -> dict[str, str]:
    """Return what a program under the guard sees of a driver, and should not."""
    answers = Answers.load()
    if answers.drivers[branch]["library"] != library.name:
        recorded = answers.drivers[branch]["library"]
        sys.exit(f"{library.name} is not the recorded {recorded}: run make generate WHAT=driver")
    soname = library.with_name("libcuda.so.1")
    base = {"PATH": os.defpath, "LD_LIBRARY_PATH": str(soname.parent)}
    names = record.names_of_headers() | answers.exports(branch)
    calls = frozenset(name for name in names if not name.startswith("cudbg"))
    with _budget.prepare({CARD: 1 << 30}, "proxy", environment=base) as budget:
        environment = {**base, **budget.environment}
        for_the_other_user(environment)
        seen = observe.observe(library, prober, names, calls, environment, "libcuda.so.1")
        driver = answers.observation(branch, sorted({name for name, _ in seen.resolver}))
        found = compare.differences(seen, driver)
        found.update(wrong_symbols(prober, seen.exports, library, environment))
    listed = {what for what in found if any(fnmatchcase(what, pattern) for pattern in MEANT)}
    unlisted = {what: how for what, how in found.items() if what not in listed}
    results = sum(len(row) for row in driver.calls.values())
    asked = f"{len(seen.exports)} symbols, {len(seen.resolver)} names and flags, {results} results"
    print(f"{library.name}: {asked}: {len(listed)} differ on purpose, {len(unlisted)} otherwise", flush=True)
    return unlisted


def main(branches: list[str]) -> None:
    """Check each driver."""
    before = record.nodes()
    failed = False
    with tempfile.TemporaryDirectory(prefix="gpuconf-drivers-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        debian = record.Debian(folder / "apt")
        prober = observe.build_prober(folder)
        for branch in branches or list(record.PACKAGES):
            found = check(branch, debian.unpack(*record.PACKAGES[branch]), prober)
            for what, how in found.items():
                print(f"  {what}: {how}")
            failed = failed or bool(found)
    if record.nodes() != before:
        sys.exit("the driver has made device files")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    os.umask(0o022)
    main(sys.argv[1:])
