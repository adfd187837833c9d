"""Runs programs over the library that stands in for the CUDA runtime and the libraries above it, by ctypes."""

import sys
import textwrap
from pathlib import Path

import gpuconf
import script

SHIPPED = Path(gpuconf.__file__).parent / "_simulator"
BEGIN = """
import ctypes, os, sys
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint64, c_void_p, create_string_buffer
for name in ("libcuda.so.1", "libgpuconf-runtime.so"):
    cuda = ctypes.CDLL(os.path.join(sys.argv[1], name), ctypes.RTLD_GLOBAL)
def counted():
    "What was not computed, by name."
    name, count, found = create_string_buffer(100), c_uint64(), {}
    while cuda.gpuconf_runtime_unmarked_name(len(found), name, c_size_t(100), byref(count)) == 0:
        found[name.value.decode()] = count.value
    return found
"""


def run(program: str, libraries: Path = SHIPPED, **environment: str) -> list[str]:
    kept = script.plain()
    words = [sys.executable, "-c", BEGIN + textwrap.dedent(program), str(libraries)]
    kept |= {"GPUCONF_SIMULATE": "2xA100-40GB", **environment}
    return script.printed(words, timeout=120, env=kept).splitlines()
