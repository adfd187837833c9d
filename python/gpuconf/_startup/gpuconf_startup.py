# SPDX-License-Identifier: Apache-2.0
"""The start of every Python process under ``gpuconf run``.

The process may be any Python 3.6 or newer, with or without gpuconf, and most never use a GPU. So this file imports
nothing of gpuconf before it is needed, and nothing in it may make a program fail.

``opentelemetry-instrument`` has a ``sitecustomize`` that hides ours and does not run it. OpenTelemetry then finds the
entry point in ``gpuconf_run.dist-info``, which also calls :func:`activate`.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_HERE = os.path.dirname(os.path.abspath(__file__))
_PACKAGE = os.path.dirname(_HERE)

# What runs after the first import of a module.
_ROUTED = ("torch", "cupy", "numba.cuda")
_CORE = "gpuconf._core.runtime"


class _First:
    """Calls a function before the first import of one of some modules, and then asks the other finders again."""

    def __init__(self, modules: "tuple[str, ...]", prepare: "Callable[[str], object]") -> None:
        self._modules, self._prepare = modules, prepare

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> object:
        """Return what the other finders return after that."""
        if name not in self._modules:
            return None
        self._prepare(name)  # if it raises, so does the next import
        if self in sys.meta_path:  # type: ignore[comparison-overlap] # else another thread has been here
            sys.meta_path.remove(self)  # type: ignore[arg-type]
        import importlib.util

        return importlib.util.find_spec(name)


class _AsTensorFlow(_First):
    """Stands in for gpuconf's finder until the first import of TensorFlow."""

    def find_distributions(self, context: object = None) -> "list[object]":
        """Install gpuconf's finder, which has TensorFlow's version for ``importlib.metadata``, and ask it."""
        if getattr(context, "name", None) != "tensorflow":
            return []
        self.find_spec("tensorflow")
        return [found for finder in sys.meta_path[:1] for found in finder.find_distributions(context)]  # type: ignore[attr-defined]


def _install_as_tensorflow(name: str) -> None:
    try:
        import gpuconf
    except ImportError as error:
        text = f"gpuconf run --as-tensorflow: gpuconf is not installed for {sys.executable} ({error})"
        raise ImportError(text, name=name) from None
    gpuconf.install_as_tensorflow(1 if os.environ.get("GPUCONF_AS_TENSORFLOW") == "v1" else 2)


def _import_gpuconf(name: str) -> None:
    """Import gpuconf before a library that then runs on the simulated GPUs."""
    try:
        _find_gpuconf()
        __import__("gpuconf")
    except Exception as error:
        _end(f"gpuconf run --simulate: {sys.executable} sees no simulated GPUs for {name}: {error}")


def _watch_imports() -> None:
    """Call `_imported` after the first import of each module that it is about."""
    folder = os.path.join(_PACKAGE, "_core")
    sys.path.insert(0, folder)
    try:
        from import_finder import ImportFinder  # type: ignore[import-not-found]
    finally:
        sys.path.remove(folder)
    waiting = {*_ROUTED, _CORE}

    def execute_and_follow_up(name, execute):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        execute()
        if name in waiting:
            waiting.discard(name)
            _imported(name)

    sys.meta_path.insert(0, ImportFinder(waiting.__contains__, execute_and_follow_up))


def _imported(name: str) -> None:
    """Route a library that has been imported, or join the job if it is gpuconf. Never fails."""
    try:
        _find_gpuconf()
        from gpuconf.jobs import routing

        routing.imported(name, tell)
    except Exception as error:
        if name != _CORE:
            tell("route", f"{name}: not routed: {_limit_by_itself(name)} ({type(error).__name__}: {error})")


def _find_gpuconf() -> None:
    """Import gpuconf: the one that this Python has, else the one that this file belongs to."""
    if sys.version_info < (3, 10):  # noqa: UP036 - this file runs there too
        raise ImportError("gpuconf needs Python 3.10 or newer")
    if "t" in getattr(sys, "abiflags", ""):
        raise ImportError("gpuconf does not support free-threaded Python")
    import importlib.util

    if "gpuconf" in sys.modules or importlib.util.find_spec("gpuconf") is not None:
        return
    start = os.path.join(_PACKAGE, "__init__.py")
    spec = importlib.util.spec_from_file_location("gpuconf", start, submodule_search_locations=[_PACKAGE])
    assert spec is not None
    assert spec.loader is not None
    sys.modules["gpuconf"] = module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules["gpuconf"]
        raise


def _limit_by_itself(name: str) -> str:
    """Make a library without gpuconf use its own limit, where it has one. Returns what was done."""
    if name == "cupy":
        return "limited by CUPY_GPU_MEMORY_LIMIT"
    if name != "torch":
        return "it has no limit of its own"
    try:
        cuda = sys.modules["torch"].cuda
        limit = _size_of(os.environ["GPUCONF_LIMIT"])

        def limit_all() -> None:
            gpus = cuda.device_count()
            for ordinal in range(gpus):
                part = limit_of_rank(limit, ordinal, gpus)
                total = cuda.get_device_properties(ordinal).total_memory
                cuda.set_per_process_memory_fraction(min(part / total, 1.0), ordinal)

        cuda._lazy_call(limit_all)  # when PyTorch first uses the GPU
    except Exception as error:
        return f"PyTorch's own limit failed: {type(error).__name__}: {error}"
    return "limited by PyTorch itself"


def _size_of(text: str) -> int:
    """Return the bytes of a size, by gpuconf's own grammar: this Python may be unable to import gpuconf, but not that
    file.
    """
    import importlib.util

    spec = importlib.util.spec_from_file_location("gpuconf_size_text", os.path.join(_PACKAGE, "_core", "size_text.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.size_of(text)  # type: ignore[no-any-return]


def limit_of_rank(limit: int, ordinal: int, gpus: int) -> int:
    """Return this process's part of the limit of a GPU, by its rank: the rule of gocore/tf/config/sizing.go.

    tests_go/tf/config/ranks.table is its table.
    """
    rank, ranks = _number("LOCAL_RANK"), _number("LOCAL_WORLD_SIZE")
    if rank is None or ranks is None or not 0 <= rank < ranks or ranks == 1 or ordinal >= gpus:
        return limit
    if ordinal >= ranks:  # no rank uses this GPU
        return limit // ranks
    if rank % gpus != ordinal:
        return 0
    return limit // ((ranks - ordinal + gpus - 1) // gpus)


def _number(name: str) -> "int | None":
    """Return a variable as Go reads a number, without the spaces and underscores that Python accepts.

    None for anything else.
    """
    text = os.environ.get(name, "")
    try:
        return int(text) if set(text) <= set("+-0123456789") else None
    except ValueError:
        return None


def tell(event: str, text: str) -> None:
    """Append a line to the job's record of its processes, in one write."""
    folder = os.environ.get("GPUCONF_RUN")
    if not folder:
        return
    # As the codec unicode_escape, whose import takes longer.
    line = "\t".join((str(os.getpid()), event, ascii(text)[1:-1]))
    try:
        file = os.open(os.path.join(folder, "processes"), os.O_WRONLY | os.O_APPEND | getattr(os, "O_CLOEXEC", 0))
        try:
            os.write(file, (line + "\n").encode("ascii"))
        finally:
            os.close(file)
    except OSError:  # the job has ended, and its folder is gone
        pass


def _tell_started() -> None:
    tell("start", sys.executable or "")


def _at_exit() -> None:
    if "gpuconf._core.native" in sys.modules:
        try:
            from gpuconf.jobs import routing

            routing.ended(tell)
        except Exception as error:
            tell("trouble", f"{type(error).__name__}: {error}")


def _name_limit() -> None:
    """Say which limit a program had reached: its own message names a GPU of that size, and not gpuconf."""
    error = getattr(sys, "last_value", None)
    if type(error).__name__ == "OutOfMemoryError" and "OOM when allocating" not in str(error):
        limit = os.environ.get("GPUCONF_LIMIT")
        sys.stderr.write(f"gpuconf: the program ran out of memory, at its limit: GPUCONF_LIMIT={limit}\n")


def _name_as_tensorflow() -> None:
    """Say what takes TensorFlow's place for a program that ended without it."""
    error = getattr(sys, "last_value", None)
    if isinstance(error, ModuleNotFoundError) and error.name == "tensorflow":
        sys.stderr.write("gpuconf: without TensorFlow, its configuration works with gpuconf run --as-tensorflow\n")


def _disabled() -> bool:
    return os.environ.get("GPUCONF_DISABLE", "") not in ("", "0")


def _end(text: str) -> None:
    """End this process, which would go on with something else than was requested. An exception can be caught."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is sys.stderr:
                stream.write(text + "\n")
            stream.flush()
        except (AttributeError, OSError, ValueError):  # there is none, or it is closed
            pass
    os._exit(1)


def _activate_as_tensorflow() -> None:
    if "tensorflow" in sys.modules:  # a .pth file has imported it
        _end(f"gpuconf run --as-tensorflow: TensorFlow itself is already imported when {sys.executable} starts")
    modules = ("tensorflow", "tensorboard.compat.notf")
    sys.meta_path.insert(0, _AsTensorFlow(modules, _install_as_tensorflow))  # type: ignore[arg-type]


def _rehearse() -> None:
    """Let this process be rehearsed, for ``gpuconf plan -- PROGRAM``."""
    try:
        _find_gpuconf()
        from gpuconf.plans.programs import inside

        inside.begin()
    except Exception as error:
        why = f"gpuconf plan: {sys.executable} is not rehearsed: {type(error).__name__}: {error}"
        # An import of what uses GPUs, which would run as it is, ends the process.
        first = _First(("torch", "jax", "vllm", "llama_cpp"), lambda _: _end(why))
        sys.meta_path.insert(0, first)  # type: ignore[arg-type]


def _keep_the_lease() -> None:
    """Let every program that this one starts inherit the lease's descriptor. Otherwise ``subprocess`` closes it.

    So the memory stays leased until the last process of the job has ended, whichever of them are killed.
    """
    number, _, file = os.environ["GPUCONF_LEASE_FD"].partition(":")
    descriptor = int(number)
    import _posixsubprocess

    fork_exec = _posixsubprocess.fork_exec

    def fork_exec_with_lease(*args):  # type: ignore[no-untyped-def] # noqa: ANN002, ANN202
        if args[2] and descriptor not in args[3] and _identity(descriptor) == file:  # close_fds, and what it keeps
            args = (*args[:3], tuple(sorted((*args[3], descriptor))), *args[4:])
        return fork_exec(*args)

    _posixsubprocess.fork_exec = fork_exec_with_lease
    if "subprocess" in sys.modules:
        sys.modules["subprocess"].__dict__["_fork_exec"] = fork_exec_with_lease
    # From Python 3.13 on, subprocess uses it instead, where it can.
    closefrom = getattr(os, "POSIX_SPAWN_CLOSEFROM", None)
    if closefrom is not None:
        for name in ("posix_spawn", "posix_spawnp"):
            setattr(os, name, _spawn_with_lease(getattr(os, name), closefrom, descriptor, file))  # type: ignore[no-untyped-call]


def _spawn_with_lease(spawn, closefrom, descriptor, file):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """Return ``os.posix_spawn`` with another meaning of "close all from n on": all but the lease's descriptor."""

    def posix_spawn_with_lease(path, argv, env, **options):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN003, ANN202
        actions = []
        for action in options.get("file_actions") or ():
            if action[0] != closefrom or action[1] > descriptor or _identity(descriptor) != file:
                actions.append(action)
                continue
            n = action[1]  # the lease lies there while the others are closed
            actions += [(os.POSIX_SPAWN_DUP2, descriptor, n), (closefrom, n + 1)]
            if descriptor != n:
                actions += [(os.POSIX_SPAWN_DUP2, n, descriptor), (os.POSIX_SPAWN_CLOSE, n)]
        if actions:
            options["file_actions"] = actions
        return spawn(path, argv, env, **options)

    return posix_spawn_with_lease


def _identity(descriptor: int) -> str:
    """Return which file a descriptor is open on: the program may have closed it, and used its number again."""
    try:
        status = os.fstat(descriptor)
    except OSError:
        return ""
    return f"{status.st_dev}:{status.st_ino}"


_active = False
routes = False  # whether libraries are routed here, and a program that imports gpuconf need not do it


def activate() -> None:
    """Install the hooks, once, and remove this folder from ``sys.path``. OpenTelemetry calls it as well."""
    global _active, routes
    sys.path[:] = [entry for entry in sys.path if entry != _HERE]
    if _active or _disabled():
        return
    _active = True
    if os.environ.get("GPUCONF_AS_TENSORFLOW"):
        _activate_as_tensorflow()
    if os.environ.get("GPUCONF_LIMIT"):
        routes = True
        _watch_imports()
        if not os.environ.get("GPUCONF_RUN"):  # which says it itself
            import atexit

            atexit.register(_name_limit)
    if os.environ.get("GPUCONF_SIMULATE"):
        if not os.environ.get("GPUCONF_AS_TENSORFLOW"):
            import atexit

            atexit.register(_name_as_tensorflow)
        sys.meta_path.insert(0, _First(("torch", "vllm", "llama_cpp"), _import_gpuconf))  # type: ignore[arg-type]
    if os.environ.get("GPUCONF_REHEARSAL"):
        _rehearse()
    if os.environ.get("GPUCONF_LEASE_FD"):
        try:
            _keep_the_lease()
        except Exception as error:
            tell("trouble", f"{type(error).__name__}: {error}")
    if os.environ.get("GPUCONF_RUN"):
        import atexit

        atexit.register(_at_exit)
        _tell_started()
        if hasattr(os, "register_at_fork"):  # Python 3.7
            os.register_at_fork(after_in_child=_tell_started)
