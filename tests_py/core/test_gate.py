"""Errors passed from Go to Python: kinds, classes, texts; and torch's class for out of memory."""

from __future__ import annotations

import builtins
import copy
import pickle
import re
import sys
import types
from pathlib import Path

import gpuconf
import pytest
from gpuconf import errors
from gpuconf._core.built_in_errors import built_in
from gpuconf._core.native import by_hand, core

ROOT = Path(__file__).resolve().parents[2]
STATUS = (ROOT / "gocore" / "base" / "status" / "status.go").read_text()


def kind(constant: str) -> str:
    """The name of a constant of status.go on the way to Python, such as INVALID_ARGUMENT."""
    return re.sub(r"\B[A-Z]", r"_\g<0>", constant).upper()


# By kind, the class with the constant's name, and the built-in class that the constant's comment says.
CLASSES = {
    kind(constant): (getattr(errors, f"{constant}Error", None), getattr(builtins, built_in_class))
    for constant, built_in_class in re.findall(r"(?m)^\t(\w+) +(?:Code = iota )?// (\w+Error)\b", STATUS)
}

# Kinds of checks that TensorFlow makes in Python, not in its native code.
IN_PYTHON = {"VALUE": "INVALID_ARGUMENT", "STATE": "FAILED_PRECONDITION"}


def test_every_kind_of_go_has_its_class() -> None:
    names = re.search(r"var names = \[...\]string\{(.*?)\}", STATUS, re.S)
    assert names is not None
    found = dict(re.findall(r'(\w+): "(\w+)"', names[1]))
    assert set(found.values()) == set(CLASSES) | set(IN_PYTHON)
    assert {constant: kind(constant) for constant in found} == found


def test_c_raises_kinds_of_go() -> None:
    sources = "".join(path.read_text() for path in sorted((ROOT / "pybind" / "_gpuconf").glob("*.c")))
    found = re.findall(r"\\036([A-Z_]+)\\036", sources) + re.findall(r'\[GCGO_\w+\] = "([A-Z_]+)"', sources)
    assert len(found) == 5
    assert set(found) - set(CLASSES) == {"FORKED"}, "native.py makes a ForkedProcessError of it"


@pytest.mark.parametrize(("name", "code"), IN_PYTHON.items())
def test_what_tensorflow_checks_in_python_is_marked(name: str, code: str) -> None:
    """Own functions of gpuconf raise the same class for both; the TensorFlow-shaped ones raise its built-in class."""
    error = errors.from_code(name, "the text")
    assert (type(error), error.code, error.in_python) == (CLASSES[code][0], code, True)
    assert not errors.from_code(code, "the text").in_python
    plain = built_in(error)
    assert (type(plain), str(plain)) == (CLASSES[code][1], "the text")
    assert built_in(errors.from_code(code, "the text")) is None


@pytest.mark.parametrize("code", CLASSES)
def test_a_kind_is_raised_as_its_class(code: str) -> None:
    cls, builtin = CLASSES[code]
    assert cls is not None, "Python has no class for it"
    error = errors.from_code(code, "the text")
    assert type(error) is cls
    assert isinstance(error, builtin)
    assert isinstance(error, errors.GpuconfError)
    assert (str(error), error.message, error.code) == ("the text", "the text", code)
    assert cls.__name__ in errors.__all__
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (cls, "the text")


def test_an_unknown_kind_is_an_unknown_error() -> None:
    assert type(errors.from_code("SOMETHING_NEW", "text")) is errors.UnknownError


def test_an_error_carries_its_text_alone() -> None:
    with pytest.raises(errors.FailedPreconditionError) as caught:
        core.pybind_MemoryInfo("GPU:0")  # nothing is listed yet
    assert "\x1e" not in str(caught.value)
    assert str(caught.value).startswith("no devices are listed yet")
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    "text",
    ["ümläut 💾", "a\x1eb", "line\nline", "%s%n%d", "word " * 20_000],
    ids=["unicode", "mark", "lines", "percent", "long"],
)
def test_a_text_comes_back_whole(one_gpu: None, text: str) -> None:
    with pytest.raises(ValueError, match="Failed parsing") as caught:
        gpuconf.memory.stats(text)
    assert text.replace("\x1e", " ") in str(caught.value)


def test_a_word_that_nobody_reads_to_its_end_comes_back_without_its_middle(one_gpu: None) -> None:
    with pytest.raises(ValueError, match="Failed parsing") as caught:
        gpuconf.memory.stats("begin" + "💾" * 100_000 + "end")
    text = str(caught.value)
    assert "'begin💾" in text
    assert "💾end'" in text
    assert len(text) < 1000


@pytest.mark.parametrize(
    "call",
    [
        lambda: core.pybind_SetVisibleDevices("no json", "", False),
        lambda: core.pybind_Enumerate("[1, 2]"),
        lambda: core.pybind_SetSetting("no such setting", "1"),
        lambda: core.pybind_Setting("no such setting"),
    ],
    ids=["no JSON", "another JSON", "unknown setting to set", "unknown setting"],
)
def test_a_mistake_of_our_own_python_is_an_internal_error(call: object) -> None:
    gpuconf.config.list_physical_devices()
    with pytest.raises(errors.InternalError):
        call()  # type: ignore[operator]
    assert gpuconf.config.list_physical_devices()


def test_numbers_beyond_those_that_exist_are_refused(one_gpu: None) -> None:
    gpuconf.memory.allocate(0)
    for call in (
        lambda: by_hand().allocate(7, 1),
        lambda: by_hand().allocate(0, -1),
        lambda: by_hand().allocate(1 << 40, 1),
        lambda: core.pybind_StopPeak(0, 99),
        lambda: core.pybind_StopPeak(-5, 0),
        lambda: core.pybind_CopyToHost(0, 0, 0, 0, 5),
        lambda: core.pybind_CopyToHost(-1, -1, -1, -1, -1),
        lambda: core.pybind_CopyFromHost(1, 1, 0, (1 << 63) - 1, (1 << 63) - 1),
        lambda: core.pybind_WaitForFree(9, 0, 1),
        lambda: core.pybind_LimitBytes(9),
    ):
        with pytest.raises(ValueError, match=r"."):
            call()
    with pytest.raises(OverflowError):
        by_hand().allocate(0, 1 << 64)
    core.pybind_WaitForFree(0, -1, -(1 << 63))
    assert gpuconf.memory.stats().num_allocs == 0


# torch


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A stand-in with torch's class, and a module __getattr__ that must not run."""
    module = types.ModuleType("torch")
    module.OutOfMemoryError = type("OutOfMemoryError", (RuntimeError,), {"__module__": "torch"})  # type: ignore[attr-defined]

    def imported(name: str) -> object:
        raise AssertionError(f"torch.{name} was asked for")

    module.__getattr__ = imported  # type: ignore[method-assign]
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


def out_of_memory() -> MemoryError:
    with pytest.raises(MemoryError, match=" out of memory") as caught:
        gpuconf.memory.allocate(1 << 50)
    return caught.value


def test_out_of_memory_is_torchs_error_too(one_gpu: None, torch: types.ModuleType) -> None:
    error = out_of_memory()
    assert isinstance(error, torch.OutOfMemoryError)
    assert isinstance(error, (errors.OutOfMemoryError, errors.ResourceExhaustedError))
    assert isinstance(error, errors.GpuconfError)
    assert isinstance(error, RuntimeError)
    assert type(error).__qualname__ == "ResourceExhaustedError"
    assert type(error) is type(out_of_memory())
    assert error.code == "RESOURCE_EXHAUSTED"


@pytest.mark.usefixtures("one_gpu")
def test_such_an_error_can_be_copied_and_pickled(torch: types.ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    error = out_of_memory()
    assert str(copy.copy(error)) == str(error)
    sent = pickle.dumps(error)
    assert isinstance(pickle.loads(sent), torch.OutOfMemoryError)
    monkeypatch.delitem(sys.modules, "torch")
    received = pickle.loads(sent)  # by a process without torch
    assert type(received) is errors.ResourceExhaustedError
    assert str(received) == str(error)


def test_before_torch_2_5_the_class_was_in_torch_cuda(one_gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = types.ModuleType("torch.cuda")
    cuda.OutOfMemoryError = type("OutOfMemoryError", (RuntimeError,), {})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", types.ModuleType("torch"))
    monkeypatch.setitem(sys.modules, "torch.cuda", cuda)
    assert isinstance(out_of_memory(), cuda.OutOfMemoryError)


@pytest.mark.usefixtures("one_gpu")
@pytest.mark.parametrize(
    "broken",
    [
        None,
        types.ModuleType("torch"),
        types.SimpleNamespace(OutOfMemoryError=5),
        types.SimpleNamespace(OutOfMemoryError=int),
    ],
    ids=["blocked", "half imported", "no class", "no exception"],
)
def test_a_torch_without_the_class_changes_nothing(monkeypatch: pytest.MonkeyPatch, broken: object) -> None:
    monkeypatch.setitem(sys.modules, "torch", broken)  # type: ignore[arg-type]
    assert type(out_of_memory()) is errors.ResourceExhaustedError


def test_without_torch_nothing_is_imported(one_gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert type(out_of_memory()) is errors.ResourceExhaustedError
    assert "torch" not in sys.modules


@pytest.mark.usefixtures("one_gpu")
def test_other_errors_are_not_torchs(torch: None) -> None:
    with pytest.raises(ValueError, match="No matching") as caught:
        gpuconf.memory.stats("GPU:9")
    assert type(caught.value) is errors.InvalidArgumentError
