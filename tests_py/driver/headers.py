# SPDX-License-Identifier: Apache-2.0
"""Record the functions of the newest CUDA driver headers: `make generate WHAT=driver`, after record.py.

The drivers that Debian has know CUDA 12.5. What came later is read off NVIDIA's own bindings: they are started over a
libcuda.so.1 that only notes what programs request of cuGetProcAddress, which names each function's version. Their
declarations name the exported forms.
A row of headers.json: base name, exported name, version, whether there is a form for per-thread streams. "parameters"
has the bytes of each parameter, in order.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from recordings import Recording  # noqa: E402

from driver import answers  # noqa: E402
from driver.observe import base_name  # noqa: E402

FILE = Recording("driver/headers.json")

# 13.3 is the last one that requests per-thread forms by name, function by function; later ones set the flag for all.
BINDINGS = ("12.9.10", "13.3.0", "13.5.0")
NOTING = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int nothing(void) { return 0; }
int cuGetProcAddress_v2(const char *name, void **function, int version, unsigned long long flags, int *status) {
	FILE *out = fopen(getenv("NOTES"), "a");
	fprintf(out, "%s %d %llu\n", name, version, flags);
	fclose(out);
	if (status != NULL)
		*status = 0;
	*function = strcmp(name, "cuGetProcAddress") == 0 ? (void *)cuGetProcAddress_v2 : (void *)nothing;
	return 0;
}
int cuGetProcAddress(const char *name, void **function, int version, unsigned long long flags) {
	return cuGetProcAddress_v2(name, function, version, flags, NULL);
}
"""


BYTES = {
    1: "char",
    2: "short",
    4: "int unsigned float CUdevice cuuint32_t CUresult",
    8: "size_t long CUdeviceptr CUmemGenericAllocationHandle cuuint64_t CUtexObject CUsurfObject",
    64: "CUipcMemHandle CUipcEventHandle",
}


def parameters_of(declared: str, types: str) -> dict[str, list[int]]:
    """Return the bytes of each function's parameters. Functions of graphics libraries' own types are left out."""
    bytes_of = {name: size for size, names in BYTES.items() for name in names.split()}
    bytes_of.update(dict.fromkeys(re.findall(r"^ *ctypedef enum (\w+)", types, re.M), 4))
    bytes_of.update(dict.fromkeys(re.findall(r"^ *ctypedef \w+_enum (\w+)", types, re.M), 4))
    bytes_of.update(dict.fromkeys(re.findall(r"^ *ctypedef [^(\n]*\* ?(\w+)(?: '\w+')?$", types, re.M), 8))
    bytes_of.update(dict.fromkeys(re.findall(r"^ *ctypedef .*\(\*(\w+)(?: '\w+')?\)\(", types, re.M), 8))
    found = {}
    for name, text in re.findall(r"\b_(cu[A-Z]\w*)\((.*)\) except", declared):
        parts = [part.replace("const ", "").split() for part in text.split(", ") if part]
        kinds = [8 if "*" in " ".join(part) else bytes_of.get(part[-2], 0) for part in parts]
        if 0 not in kinds:
            found[name] = kinds
    return found


def asked_by(version: str, folder: Path) -> tuple[list[tuple[str, str, int, bool, bool]], dict[str, list[int]]]:
    """Return base name, exported name, version, whether for per-thread streams, and whether a stream is an argument.

    And the bytes of the parameters of each exported name.
    """
    place = folder / version
    subprocess.run(
        [
            sys.executable,
            *"-m pip install --quiet --disable-pip-version-check --target".split(),
            place,
            f"cuda-bindings=={version}",
        ],
        check=True,
    )
    notes = folder / f"{version}.txt"
    environment = os.environ | {
        "LD_LIBRARY_PATH": str(folder),
        "NOTES": str(notes),
        "PYTHONPATH": str(place),
        "CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM": "1",
    }
    subprocess.run(
        [sys.executable, "-c", "from cuda.bindings import driver; driver.cuDriverGetVersion()"],
        env=environment,
        check=True,
    )
    declared = next(
        path
        for name in ("_internal/driver.pxd", "_bindings/cydriver.pxd")
        if (path := place / "cuda/bindings" / name).exists()
    )
    takes_stream = {
        name: "CUstream " in rest for name, rest in re.findall(r"\b_(cu[A-Z]\w*)\((.*)\) except", declared.read_text())
    }
    by_base: dict[str, list[str]] = {}
    for name in sorted(takes_stream):
        by_base.setdefault(base_name(name), []).append(name)
    asked: dict[str, list[tuple[int, int]]] = {}
    for line in notes.read_text().splitlines():
        base, since, flags = line.split()
        asked.setdefault(base, []).append((int(since), int(flags)))
    rows = []
    for base, versions in asked.items():
        if len(versions) != len(by_base[base]):
            sys.exit(f"cuda-bindings {version} asks for {base} in {versions}, and declares {by_base[base]}")
        for exported, (since, flags) in zip(by_base[base], sorted(versions), strict=True):
            rows.append((base, exported, since, flags == answers.PER_THREAD, takes_stream[exported]))
    return rows, parameters_of(declared.read_text(), (place / "cuda/bindings/cydriver.pxd").read_text())


def main() -> None:
    """Write headers.json."""
    with tempfile.TemporaryDirectory(prefix="gpuconf-headers-") as name:
        folder = Path(name)
        (folder / "noting.c").write_text(NOTING)
        compiler = shlex.split(os.environ.get("CC", "cc"))
        subprocess.run(
            [
                *compiler,
                *"-shared -fPIC -Wl,-soname,libcuda.so.1 -o".split(),
                folder / "libcuda.so.1",
                folder / "noting.c",
            ],
            check=True,
        )
        both = {version: asked_by(version, folder) for version in BINDINGS}
    found = {version: rows for version, (rows, _) in both.items()}
    parameters = {name: sizes for _, named in both.values() for name, sizes in named.items()}
    own_streams = {base for base, _, _, per_thread, _ in found["13.3.0"] if per_thread}
    known = {base for base, *_ in found["13.3.0"]}
    forms: dict[str, tuple[str, str, int, bool]] = {}
    for rows in found.values():
        for base, exported, since, _, stream in rows:
            # Of a function newer than 13.3, a per-thread form is assumed if a stream is an argument.
            own = base in own_streams if base in known else stream
            # The bindings disagree on a few versions. The lower one serves all of them.
            lowest = min(since, forms[exported][2]) if exported in forms else since
            forms[exported] = (base, exported, lowest, own)
    data = {
        "bindings": list(BINDINGS),
        "forms": [list(forms[name]) for name in sorted(forms)],
        "parameters": [[name, *parameters[name]] for name in sorted(parameters)],
    }
    FILE.write_text(answers.text_of(data))
    print(f"{FILE.path.name}: {len(forms)} forms")


if __name__ == "__main__":
    main()
