"""Programs in C, C++ and Rust that use gpuconf without Python: docs/c-api.md, examples/c and examples/rust."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import gpuconf
import pytest
import simulator_sources
from script import execute

ROOT = Path(__file__).parents[2]
LIBRARY = gpuconf.library_path()
KEPT = {name: value for name, value in os.environ.items() if not name.startswith(("GPUCONF_", "CUDA_", "TF_"))}
LIMITED = {"GPUCONF_SIMULATE": "T4", "GPUCONF_LIMIT": "1GiB", "GPUCONF_LEDGER": ""}
WITHIN_A_LIMIT = "600 MiB of weights: allocated\n600 MiB more: out of memory\n"


def compiled(folder: Path, source: str, compiler: str = "cc", *options: str) -> Path:
    program = folder / "program"
    suffix = "cc" if compiler == "c++" else "c"
    (folder / f"main.{suffix}").write_text(source, encoding="utf-8")
    strict = ["-Wall", "-Wextra", "-Werror", "-pthread", *options]
    command = [compiler, *strict, f"-I{gpuconf.get_include()}", "-o", program, folder / f"main.{suffix}", LIBRARY]
    subprocess.run(command, check=True)
    return program


def run(program: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return execute([program], env=KEPT | variables)


def printed(program: Path) -> str:
    done = run(program, **LIMITED)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_library_needs_no_function_of_python() -> None:
    symbols = execute(["nm", "-D", "--undefined-only", LIBRARY], check=True).stdout
    strong = re.findall(r"^ *U (_?Py\w*)$", symbols, re.M)
    assert strong == []  # what does pybind/_gpuconf/weak.h not reach?


def test_the_program_of_the_page(tmp_path: Path) -> None:
    page = (ROOT / "docs/c-api.md").read_text(encoding="utf-8")
    source = re.findall(r"```c\n(.*?)```", page, re.S)[0]
    assert printed(compiled(tmp_path, source, "cc", "-std=c11", "-pedantic")) == "allocated\n"
    assert printed(compiled(tmp_path, source, "c++", "-std=c++17")) == "allocated\n"


def test_the_example_in_c(tmp_path: Path) -> None:
    source = (ROOT / "examples/c/limit.c").read_text(encoding="utf-8")
    assert printed(compiled(tmp_path, source)) == WITHIN_A_LIMIT


@pytest.mark.skipif(shutil.which("cmake") is None, reason="CMake is not installed")
def test_the_example_with_cmake(tmp_path: Path) -> None:
    configure = ["cmake", "-S", ROOT / "examples/c", "-B", tmp_path, f"-DPython3_EXECUTABLE={sys.executable}"]
    subprocess.run(configure, check=True, capture_output=True)
    subprocess.run(["cmake", "--build", tmp_path], check=True, capture_output=True)
    assert printed(tmp_path / "limit") == WITHIN_A_LIMIT


@pytest.mark.skipif(not simulator_sources.rust(), reason="there is no Rust compiler")
def test_the_example_in_rust(tmp_path: Path) -> None:
    program = tmp_path / "limit"
    subprocess.run(["rustc", ROOT / "examples/rust/limit.rs", "-o", program, "-C", f"link-arg={LIBRARY}"], check=True)
    assert printed(program) == WITHIN_A_LIMIT


@pytest.mark.skipif(not simulator_sources.rust() or shutil.which("cargo") is None, reason="Cargo is not installed")
def test_the_example_with_cargo(tmp_path: Path) -> None:
    package = shutil.copytree(ROOT / "examples/rust", tmp_path / "rust")
    words = ["cargo", "build", "--offline", "--quiet", "--manifest-path", package / "Cargo.toml"]
    subprocess.run(words, check=True, env={**os.environ, "PYTHON": sys.executable})
    assert printed(package / "target/debug/limit") == WITHIN_A_LIMIT


INIT = """
#include <gpuconf.h>
#include <stdio.h>
int main(void)
{
	int first = gpuconf_init();
	printf("%d %s\\n", first, gpuconf_last_error());
	printf("%d\\n", gpuconf_init());
	return 0;
}
"""


def test_what_cannot_be_initialized_says_why(tmp_path: Path) -> None:
    program = compiled(tmp_path, INIT)
    assert run(program, GPUCONF_SIMULATE="T4").stdout == "1 \n1\n"
    hidden = run(program, GPUCONF_SIMULATE="T4", CUDA_VISIBLE_DEVICES="")
    assert hidden.stdout.startswith('0 there is no GPU: CUDA_VISIBLE_DEVICES="" shows none')
    wrong = run(program, GPUCONF_SIMULATE="T5")
    assert wrong.stdout.startswith("0 ")
    assert "T4" in wrong.stdout
    limit = run(program, GPUCONF_SIMULATE="T4", GPUCONF_LIMIT="much")
    assert limit.stdout.startswith("0 GPUCONF_LIMIT=\"much\" is not a size: write bytes, '500MB', '6GiB'")


def test_a_container_limits_a_program_without_python(tmp_path: Path) -> None:
    """Its limit counted in Python only: a C program had the whole card."""
    container = {"GPUCONF_SIMULATE": "T4", "NVIDIA_GPU_MEMORY_LIMIT": "1024"}
    program = compiled(tmp_path, (ROOT / "examples/c/limit.c").read_text(encoding="utf-8"))
    assert run(program, **container, GPUCONF_LEDGER="").stdout == WITHIN_A_LIMIT
    program = compiled(tmp_path, INIT)
    wrong = run(program, **container | {"NVIDIA_GPU_MEMORY_LIMIT": "1GiB"}).stdout
    assert wrong.startswith('0 NVIDIA_GPU_MEMORY_LIMIT="1GiB" must be a number of MiB, at least 1, such as 6144\n')
    wrong = run(program, **container, NVIDIA_GPU_MEMORY_REQUEST="2048").stdout
    assert wrong.startswith("0 NVIDIA_GPU_MEMORY_REQUEST=2048 is more than NVIDIA_GPU_MEMORY_LIMIT=1024\n")


def test_memory_without_init_is_refused_with_the_function_to_call(tmp_path: Path) -> None:
    source = """
    #include <gpuconf.h>
    #include <stdio.h>
    int main(void)
    {
        void *memory = gpuconf_malloc(1, 0, NULL);
        puts(memory != NULL ? "allocated" : gpuconf_last_error());
        return 0;
    }
    """
    assert printed(compiled(tmp_path, textwrap.dedent(source))).endswith("in C gpuconf_init()\n")


def test_threads_and_a_forked_child(tmp_path: Path) -> None:
    source = """
    #include <gpuconf.h>
    #include <pthread.h>
    #include <stdio.h>
    #include <string.h>
    #include <sys/wait.h>
    #include <unistd.h>
    static void *work(void *failures)
    {
        for (int i = 0; i < 1000; i++) {
            void *memory = gpuconf_malloc(1 << 20, 0, NULL);
            if (memory == NULL || *gpuconf_last_error() != 0)
                __atomic_add_fetch((int *)failures, 1, __ATOMIC_RELAXED);
            gpuconf_free(memory, 0, 0, NULL);
        }
        return NULL;
    }
    int main(void)
    {
        int failures = !gpuconf_init(), status = -1;
        pthread_t threads[8];
        for (int i = 0; i < 8; i++)
            pthread_create(&threads[i], NULL, work, &failures);
        for (int i = 0; i < 8; i++)
            pthread_join(threads[i], NULL);
        if (gpuconf_malloc((size_t)2 << 30, 0, NULL) != NULL || strstr(gpuconf_last_error(), "limit") == NULL)
            failures++;
        if (fork() == 0)
            _exit(gpuconf_malloc(1, 0, NULL) == NULL && strstr(gpuconf_last_error(), "fork") != NULL ? 7 : 0);
        wait(&status);
        printf("%d %d\\n", failures, WEXITSTATUS(status));
        return 0;
    }
    """
    assert printed(compiled(tmp_path, textwrap.dedent(source))) == "0 7\n"


def test_a_program_that_opens_the_library(tmp_path: Path) -> None:
    source = """
    #include <dlfcn.h>
    #include <stdio.h>
    int main(int count, char **words)
    {
        (void)count;
        void *library = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
        int (*init)(void) = (int (*)(void))(library != NULL ? dlsym(library, "gpuconf_init") : NULL);
        puts(init != NULL && init() ? "ok" : "failed");
        return 0;
    }
    """
    (tmp_path / "main.c").write_text(textwrap.dedent(source), encoding="utf-8")
    subprocess.run(["cc", "-o", tmp_path / "program", tmp_path / "main.c", "-ldl"], check=True)
    done = execute([tmp_path / "program", LIBRARY], env=KEPT | LIMITED, check=True)
    assert (done.stdout, done.stderr) == ("ok\n", "")


def test_a_variable_of_02_is_not_read(tmp_path: Path) -> None:
    source = """
        #include <gpuconf.h>
        #include <stdio.h>
        int main(void) {
            return !gpuconf_init() || puts(gpuconf_malloc((size_t)3 << 30, 0, 0) ? "served" : "refused") < 0;
        }
        """
    done = run(compiled(tmp_path, textwrap.dedent(source)), GPUCONF_SIMULATE="T4", GPUCONF_MEMORY_LIMIT="2GiB")
    assert (done.stdout, done.stderr) == ("served\n", "")
