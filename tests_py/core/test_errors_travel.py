"""An error keeps its class, text and attributes when it is sent to another process.

A worker's out-of-memory error reached a Dask client as ``Exception("ResourceExhaustedError(...)")``, so ``except
MemoryError`` did not catch it: tblib rebuilt it with ``cls.__new__(cls)``, and CPython rejects ``MemoryError.__new__``
for a class with another base first. The classes that are also PyTorch's or CuPy's lost their attributes, and a user's
subclass with another ``__init__`` could not be unpickled at all.
"""

from __future__ import annotations

import copy
import copyreg
import pickle
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cloudpickle
import pytest
import tblib.pickling_support
import travelling
from gpuconf import allocators, errors
from script import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = str(Path(__file__).parents[1])  # where travelling.py is


@pytest.fixture
def standins(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Stand-ins for PyTorch and CuPy, for the classes that need them; removed afterwards."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = dict(sys.modules)
    travelling.install_standins()
    yield
    vars(allocators).pop("cupy", None)
    for name in set(sys.modules) - set(before):
        del sys.modules[name]
    sys.modules.update(before)


@pytest.fixture
def tblib_installed() -> Iterator[None]:
    """Dask's treatment of an error's class before it pickles the error."""
    before = copyreg.dispatch_table.copy()
    yield
    copyreg.dispatch_table.clear()
    copyreg.dispatch_table.update(before)


def through_tblib(error: BaseException) -> Any:
    tblib.pickling_support.install(error)
    return pickle.loads(pickle.dumps(error))


WAYS: dict[str, Callable[[Any], Any]] = {
    **{
        f"pickle {n}": lambda e, n=n: pickle.loads(pickle.dumps(e, protocol=n))
        for n in range(pickle.HIGHEST_PROTOCOL + 1)
    },
    "cloudpickle": lambda e: pickle.loads(cloudpickle.dumps(e)),
    "tblib": through_tblib,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", travelling.ALL)
def test_an_error_survives(standins: None, tblib_installed: None, name: str, way: str) -> None:
    error = travelling.made(name)
    again = WAYS[way](error)
    assert type(again) is type(error)
    assert travelling.seen(again) == travelling.seen(error)
    assert again is not error


@pytest.mark.parametrize("name", travelling.OF_LIBRARIES)
def test_without_the_library_it_is_a_plain_error(standins: None, tblib_installed: None, name: str) -> None:
    error = travelling.made(name)
    sent = pickle.dumps(error)
    del sys.modules[name]  # restored by the fixture
    received = pickle.loads(sent)
    assert type(received) is errors.ResourceExhaustedError
    assert travelling.seen(received)[1:] == travelling.seen(error)[1:]
    assert name not in sys.modules, "the library was imported in order to read an error"


def test_tblib_brings_cause_context_and_traceback(tblib_installed: None) -> None:
    with pytest.raises(MemoryError) as caught:
        travelling.fail("ResourceExhaustedError")
    again = through_tblib(caught.value)
    assert isinstance(again.__cause__, KeyError)
    assert again.__context__ is again.__cause__
    assert again.__suppress_context__
    assert again.__traceback__.tb_frame.f_code.co_name == "test_tblib_brings_cause_context_and_traceback"


def test_the_list_is_complete() -> None:
    """The list above is complete: the classes of ``gpuconf.errors``."""
    own = {name for name, cls in travelling.CLASSES.items() if cls.__module__.startswith("gpuconf")}
    assert {found.__name__ for name in errors.__all__ if isinstance(found := getattr(errors, name), type)} <= own


# The same errors, raised in real worker processes. Each program prints only what went wrong. Ray's is in
# test_ray_cluster.py.
PROGRAM = f"""
import sys
sys.path.insert(0, {HERE!r})
import travelling

def compare(futures):
    print(*travelling.changed(futures), sep="\\n", end="")
"""


def workers(program: str) -> None:
    """Run a program with worker processes that can import the test modules."""
    done = run(PROGRAM + program, env={"PYTHONPATH": HERE}, timeout=300)
    assert (done.code, done.stdout) == (0, ""), done


def test_through_a_process_pool() -> None:
    workers("""
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
    compare({name: pool.submit(travelling.fail, name).result for name in travelling.ALL})
""")


def test_through_dask() -> None:
    workers("""
if __name__ == "__main__":
    from distributed import Client

    with Client(n_workers=1, threads_per_worker=1, dashboard_address=None) as client:
        compare({name: client.submit(travelling.fail, name).result for name in travelling.ALL})
""")
