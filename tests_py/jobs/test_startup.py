"""What ``gpuconf run`` does inside the Python processes of a program. See ``python/gpuconf/_startup``."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import venv
from pathlib import Path

import gpuconf
import pytest
from gpuconf.jobs.job import Job, JobEvent, peaks
from script import environment

PACKAGE = Path(gpuconf.__file__).parent
STARTUP = str(PACKAGE / "_startup")
LIMIT = 3 << 30

# What the startup code uses of each library. `used` is what PyTorch and CuPy do when a program first uses the GPU.
TORCH = """
import types, sys
class Device:
    total_memory = 8 << 30
fractions = {}
queued = []
def _lazy_init():
    global initialized
    if not cuda.initialized:
        cuda.initialized = True
        for call in queued:
            call()
class Cuda(types.ModuleType):
    initialized = False
cuda = Cuda("torch.cuda")
cuda._lazy_init = _lazy_init
cuda._lazy_call = queued.append
cuda.is_initialized = lambda: cuda.initialized
cuda.device_count = lambda: 2
cuda.get_device_properties = lambda ordinal: Device
cuda.set_per_process_memory_fraction = lambda fraction, ordinal: fractions.update({ordinal: fraction})
cuda.memory = types.ModuleType("torch.cuda.memory")
cuda.memory._lazy_init = _lazy_init
cuda.memory.get_allocator_backend = lambda: "native"
backends = types.SimpleNamespace(cuda=types.SimpleNamespace(is_built=lambda: True))
sys.modules.update({"torch.cuda": cuda, "torch.cuda.memory": cuda.memory})
"""
CUPY = """
import types, sys
allocators = [lambda nbytes: ("cupy", nbytes)]
cuda = types.ModuleType("cupy.cuda")
cuda.set_allocator = allocators.append
cuda.alloc = lambda nbytes: allocators[-1](nbytes)
class get_default_memory_pool:
    malloc = staticmethod(allocators[0])
"""


@pytest.fixture
def libraries(tmp_path: Path) -> Path:
    """A folder with stand-ins of PyTorch and CuPy."""
    folder = tmp_path / "libraries"
    folder.mkdir()
    (folder / "torch.py").write_text(TORCH)
    (folder / "cupy.py").write_text(CUPY)
    return folder


def python(
    code: str, *options: str, executable: str = sys.executable, path: object = "", **variables: str
) -> tuple[str, list[JobEvent]]:
    """Run code in a Python with the startup code. Returns its output, and what it reported."""
    with Job() as job:
        env = environment(
            {"PYTHONPATH": os.pathsep.join([STARTUP, str(path)]), "GPUCONF_LIMIT": str(LIMIT), **variables}
        )
        command = [executable, *options, "-c", textwrap.dedent(code)]
        done = subprocess.run(
            command, env={**env, **job.environment()}, capture_output=True, text=True, check=False, timeout=60
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout, job.events()


def routes(events: list[JobEvent]) -> list[str]:
    return [event.text for event in events if event.kind == "route"]


def test_hardly_anything_is_imported_for_a_program_that_does_not_need_it() -> None:
    show = "import sys; print(*sys.modules)"
    bare = subprocess.run([sys.executable, "-c", show], env=environment({}), capture_output=True, text=True, check=True)
    out, events = python(show)
    before = set(bare.stdout.split())
    if "sitecustomize" in before:  # the environment's own, which ours loads
        loader = subprocess.run(
            [sys.executable, "-c", f"import importlib.util; {show}"],
            env=environment({}),
            capture_output=True,
            text=True,
            check=True,
        )
        before |= set(loader.stdout.split())
    more = set(out.split()) - before
    assert more <= {"atexit", "gpuconf_startup", "import_finder", "sitecustomize"}
    assert [(event.kind, event.text) for event in events] == [("start", sys.executable)]


def test_the_limit_is_that_of_the_pools_exactly() -> None:
    show = "import gpuconf; gpuconf.config.list_logical_devices(); print(gpuconf.memory.stats('GPU:0').bytes_limit)"
    for limit, wanted in (("1234567890", 1234567890), ("6GiB", 6 << 30)):
        assert python(show, GPUCONF_SIMULATE="2xT4", GPUCONF_LIMIT=limit)[0] == f"{wanted}\n"


def test_a_programs_own_limits_are_lowered() -> None:
    out, _ = python(
        """
        import gpuconf as tf
        gpus = tf.config.list_physical_devices("GPU")
        tf.config.set_logical_device_configuration(gpus[0], [tf.config.LogicalDeviceConfiguration(2048)] * 2)
        print([tf.memory.stats(d).bytes_limit >> 20 for d in tf.config.list_logical_devices("GPU")])
        """,
        GPUCONF_SIMULATE="2xT4",
    )
    assert out == "[2048, 1024, 3072]\n"


def test_ranks_share_it() -> None:
    show = (
        "import gpuconf; print([gpuconf.memory.stats(d).bytes_limit for d in "
        "gpuconf.config.list_logical_devices('GPU')])"
    )
    for rank in range(3):
        out, _ = python(show, GPUCONF_SIMULATE="2xT4", LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE="3")
        assert out == f"{[[LIMIT // 2, 0], [0, LIMIT], [LIMIT // 2, 0]][rank]}\n"


def test_an_invalid_limit_is_an_error_that_names_the_variable() -> None:
    code = """
    import gpuconf
    try:
        gpuconf.config.list_logical_devices()
    except ValueError as error:
        print(error)
    """
    out, _ = python(code, GPUCONF_SIMULATE="T4", GPUCONF_LIMIT="much")
    assert out == "GPUCONF_LIMIT 'much' is not a size: write bytes, '500MB', '6GiB'\n"


def test_pytorch_and_cupy_are_routed_when_they_first_use_the_gpu(libraries: Path) -> None:
    """Not at the import, because the core must not be loaded before a fork.

    Without a GPU they keep their own allocators.
    """
    out, events = python(
        """
        import os, sys
        import torch, cupy
        from gpuconf._core.native import loaded
        print(loaded(), torch.cuda.memory._lazy_init is torch.cuda._lazy_init)
        torch.cuda.memory._lazy_init()
        print(torch.cuda.initialized, cupy.cuda.alloc(5), cupy.cuda.alloc(6), len(cupy.allocators))
        """,
        path=libraries,
    )
    assert out == "False True\nTrue ('cupy', 5) ('cupy', 6) 2\n"
    assert [text.partition(":")[0] for text in routes(events)] == ["torch", "cupy"]
    assert all("not routed" in text for text in routes(events))


def test_cupy_keeps_its_own_pool_if_that_holds_memory_already(tmp_path: Path) -> None:
    standins = Path(__file__).parents[1] / "frameworks/standins"
    (tmp_path / "cupy.py").write_text(
        "import cupy_standin\n"
        "cupy_standin.Pool.bytes_held, cupy_standin.Pool.malloc = 100, lambda pool, nbytes: ('cupy', nbytes)\n"
        "cupy_standin.install()\n"
    )
    out, events = python("import cupy; print(cupy.cuda.allocator(5))", path=f"{tmp_path}:{standins}")
    assert out == "('cupy', 5)\n"
    (route,) = routes(events)
    assert route.startswith("cupy: not routed: FailedPreconditionError: CuPy has already used the GPU")


def test_libraries_are_left_alone_on_simulated_gpus(libraries: Path) -> None:
    out, events = python(
        "import torch, cupy; print(torch.cuda._lazy_init is torch._lazy_init)", path=libraries, GPUCONF_SIMULATE="T4"
    )
    assert out == "True\n"
    assert routes(events) == ["torch: not routed: the GPUs are simulated", "cupy: not routed: the GPUs are simulated"]


@pytest.fixture(scope="module")
def another_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python without gpuconf."""
    folder = tmp_path_factory.mktemp("another")
    venv.create(folder, with_pip=False, symlinks=True)
    return str(folder / "bin" / "python")


def test_a_python_without_gpuconf_loads_it_for_a_library(libraries: Path, another_python: str) -> None:
    code = (
        "import sys, torch; print(sys.modules['gpuconf'].__file__); torch.cuda._lazy_init(); "
        "print(torch.cuda.initialized)"
    )
    out, events = python(code, executable=another_python, path=libraries)
    assert out == f"{PACKAGE / '__init__.py'}\nTrue\n"
    assert routes(events)[0].startswith("torch: not routed: ")


def test_pytorch_limits_itself_where_gpuconf_cannot_be_loaded(libraries: Path, another_python: str) -> None:
    (libraries / "gpuconf.py").write_text("raise ImportError('broken')")
    code = "import torch; torch.cuda._lazy_init(); print(torch.fractions)"
    out, events = python(code, executable=another_python, path=libraries)
    assert out == f"{ {0: 3 / 8, 1: 3 / 8} }\n"
    assert routes(events) == ["torch: not routed: limited by PyTorch itself (ImportError: broken)"]
    same, events = python(code, executable=another_python, path=libraries, GPUCONF_LIMIT=" 3 gib")
    assert same == out, "the grammar of gpuconf: it was an error of int()"
    out, _ = python(code, executable=another_python, path=libraries, LOCAL_RANK="0", LOCAL_WORLD_SIZE="6")
    assert out == f"{ {0: 1 / 8, 1: 0.0} }\n", "as the core: GPU 1 is that of other ranks"


def test_it_can_be_disabled(libraries: Path) -> None:
    code = "import sys, torch; print(torch.cuda._lazy_init is torch._lazy_init, 'gpuconf' in sys.modules)"
    assert python(code, path=libraries, GPUCONF_DISABLE="1") == ("True False\n", [])


def test_a_sitecustomize_that_exists_runs_too(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import builtins; builtins.seen = True")
    out, events = python("print(seen)", path=tmp_path)
    assert out == "True\n"
    assert len(events) == 1


def test_children_report_too() -> None:
    """Each way of starting one, and a fork."""
    _, events = python(
        """
        import multiprocessing, os, subprocess, sys
        subprocess.run([sys.executable, "-c", ""], check=True)
        if os.fork() == 0:
            os._exit(0)
        os.wait()
        for method in ("spawn", "fork"):
            with multiprocessing.get_context(method).Pool(1) as pool:
                pool.map(abs, [1])
        """
    )
    starts = [event.pid for event in events if event.kind == "start"]
    assert len(set(starts)) >= 5  # spawn has a resource tracker besides


@pytest.mark.parametrize("options", [["-I"], ["-E"], ["-S"]])
def test_options_that_exclude_it(options: list[str]) -> None:
    assert python("", *options)[1] == []


def test_a_process_reports_its_peaks_and_why_it_ended() -> None:
    with Job() as job:
        code = "import gpuconf as g; b = g.memory.allocate(5 << 20); b.free(); g.memory.allocate(1 << 40)"
        env = environment(
            {"PYTHONPATH": STARTUP, "GPUCONF_LIMIT": str(LIMIT), "GPUCONF_SIMULATE": "T4", **job.environment()}
        )
        done = subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 1
        largest, messages = peaks(job.events())
    assert largest == {"gpuconf": 5 << 20}
    assert len(messages) == 1
    assert "out of memory" in messages[0].lower()


def test_what_the_program_writes_into_the_record_is_skipped() -> None:
    with Job() as job:
        Path(job.folder, "processes").write_bytes(
            b'\xff\n\nx\ty\tz\n12\n5\tend\t[]\n6\tend\t{}\n7\tend\t{"peaks": {"torch": 9}}\n8\tstart\t\\x\n'
        )
        events = job.events()
        assert [event.pid for event in events] == [12, 5, 6, 7]
        assert peaks(events) == ({"torch": 9}, [])
    assert job.events() == []


def test_the_folder_is_private() -> None:
    with Job() as job:
        assert os.stat(job.folder).st_mode & 0o777 == 0o700


def test_folders_of_commands_that_were_killed_are_removed() -> None:
    with Job() as running, Job() as young:
        killed = Path(running.folder).with_name("gpuconf-run-killed")
        killed.mkdir()
        (killed / "processes").touch()
        for folder in (running.folder, killed):
            os.utime(folder, (0, 0))
        with Job():
            assert not killed.exists()
            assert Path(running.folder).exists()
            assert Path(young.folder).exists()
