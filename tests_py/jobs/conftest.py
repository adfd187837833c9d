"""Programs that share a card: ``environment``. Tests that need nothing else run beside each other: they mostly wait."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from turning import one_card

AT_ONCE = 4
SHARED = "environment"


@pytest.fixture
def environment(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[object]:
    """Of programs that share one card and one ledger."""
    if needs_only_a_card(request.node):
        yield request.getfixturevalue("beside")  # for pytest_pyfunc_call
        return
    with one_card(tmp_path) as shared:
        yield shared


def parameters(item: pytest.Item) -> dict[str, Any]:
    return dict(item.callspec.params) if hasattr(item, "callspec") else {}


def needs_only_a_card(item: pytest.Item) -> bool:
    """Whether ``environment`` is the only fixture of a test."""
    names = {SHARED, *parameters(item)}
    return isinstance(item, pytest.Function) and inspect.signature(item.obj).parameters.keys() == names


class Beside:
    """The tests of one file that need only a card, each with its own. They begin with the first one, in threads."""

    def __init__(self, items: list[pytest.Item], folder: Path) -> None:
        inherited = dict(os.environ)  # as a test has it
        self._threads = ThreadPoolExecutor(AT_ONCE)
        self._results: dict[str, Future[None]] = {
            item.nodeid: self._threads.submit(self._run, item, folder / str(number), inherited)
            for number, item in enumerate(items)
        }

    @staticmethod
    def _run(item: pytest.Function, folder: Path, inherited: Mapping[str, str]) -> None:
        folder.mkdir()
        with one_card(folder, inherited) as shared:
            item.obj(**{SHARED: shared}, **parameters(item))

    def result(self, item: pytest.Item) -> None:
        """Wait for a test, and raise what it raised."""
        self._results[item.nodeid].result()

    def end(self) -> None:
        """Begin no other test, and wait for those that have begun."""
        self._threads.shutdown(cancel_futures=True)


@pytest.fixture(scope="module")
def beside(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    items = [each for each in request.session.items if each.path == request.path and needs_only_a_card(each)]
    begun = Beside(items, tmp_path_factory.mktemp("beside"))
    yield begun
    begun.end()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Instead of calling a test that runs in a thread, wait for it."""
    begun = pyfuncitem.funcargs.get(SHARED)
    if not isinstance(begun, Beside):
        return None
    begun.result(pyfuncitem)
    return True
