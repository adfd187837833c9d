"""Run the Python tests on the wheel under CPython 3.14: ``python tests_py/wheel/python314.py dist [FILES]``.

It comes from Debian's next release, whose packages are downloaded and unpacked, with the C library that it needs.
Neither root nor a container is needed: ``sys.executable`` is a script that starts the release's own dynamic linker.
`LEFT_OUT` and `DESELECTED` say what does not run.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from debian import unpack

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "python314"
GUEST = WORK / "root"
PYTHON = "3.14"
RELEASE = "forky"
PACKAGES = [
    f"python{PYTHON}",
    f"libpython{PYTHON}-stdlib",
    f"python{PYTHON}-minimal",
    "libc6",
    "libgcc-s1",
    "libstdc++6",
]
LEFT_OUT = {
    "checks the sources, or builds from them, which the environment of make test does": """
        package/test_docs.py package/test_types.py
    """,
    "needs programs that make test-integrations installs": "integrations",
}
DESELECTED = {
    "looks at the interpreter's file or command line, which is a shell's and the dynamic linker's here": """
        guard/test_unreachable.py::test_a_process_past_the_guard_is_named_at_the_end
        cli/test_doctor.py::test_a_program_is_looked_into_and_not_run
        cli/test_doctor.py::test_go_runtimes
        leases/test_leased_run.py::test_pythons_that_skip_the_startup_code_are_reported
    """,
    "the shell that starts the interpreter needs a file, too": """
        leases/test_leased_run.py::test_no_room_for_files_is_not_an_error_of_standard_output
    """,
}


def interpreter() -> Path:
    """CPython 3.14, as a script, with the command gpuconf beside it."""
    programs = GUEST / "usr" / "bin"
    real = programs / f"python{PYTHON}"
    if not real.exists():
        unpack(WORK, "amd64", RELEASE, PACKAGES, GUEST)
    libraries = GUEST / "usr" / "lib" / "x86_64-linux-gnu"
    # Python finds its library from the place of the script, which is why the script lies beside the real one.
    script = programs / "python-of-the-tests"
    paths = f'"{libraries}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"'  # the option would replace the variable
    linker = f'"{libraries}/ld-linux-x86-64.so.2" --library-path {paths} --argv0 "$0"'
    script.write_text(f'#!/bin/sh\nexec {linker} "{real}" "$@"\n')
    command = programs / "gpuconf"
    command.write_text(f"#!{script}\nimport sys\nfrom gpuconf.cli.main import main\nsys.exit(main())\n")
    for each in (script, command):
        each.chmod(0o755)
    return script


def install(wheel: Path, python: Path) -> None:
    """The wheel and what the tests need, by this environment's pip, which runs under 3.14."""
    site = GUEST / "usr" / "lib" / "python3" / "dist-packages"
    pip = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]
    subprocess.run([*pip, "--root-user-action", "ignore", "--upgrade", "--target", site, f"{wheel}[dev]"], check=True)


def main(dist: str, *arguments: str) -> int:
    """Run the tests; pytest's exit status."""
    wheels = list(Path(dist).glob("*manylinux*_x86_64.whl"))
    if len(wheels) != 1:
        raise SystemExit(f"{dist} should hold one wheel for x86_64, but holds {len(wheels)}: run make wheels")
    python = interpreter()
    install(wheels[0], python)
    left_out = (f"--ignore=tests_py/{name}" for names in LEFT_OUT.values() for name in names.split())
    deselected = (f"--deselect=tests_py/{name}" for names in DESELECTED.values() for name in names.split())
    command = [python, "-m", "pytest", "-p", "no:cacheprovider", *left_out, *deselected, *(arguments or ["tests_py"])]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
