"""The messages between Python and the core, read and written without the module json."""

from __future__ import annotations

import json
import math
import sys

import pytest
from gpuconf._core import message
from hypothesis import given
from hypothesis import strategies as st
from script import execute

plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
values = st.recursive(plain, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))


def same(a: object, b: object) -> bool:
    """Whether two values are equal; NaN equals itself."""
    return repr(a) == repr(b)


@given(values)
def test_a_message_is_the_json_that_python_writes_and_reads(value: object) -> None:
    text = message.dumps(value)
    assert text == json.dumps(value)
    assert same(message.loads(text), json.loads(text))


def test_numbers_that_only_python_writes() -> None:
    assert message.loads("[NaN, Infinity, -Infinity]")[1:] == [math.inf, -math.inf]
    assert math.isnan(message.loads("NaN"))


def test_other_types_are_refused() -> None:
    with pytest.raises(TypeError, match="complex is not a type of JSON"):
        message.dumps([1j])


def test_a_message_that_is_cut_off_raises() -> None:
    for text in ("", "[1,", '{"a":', '"a'):
        with pytest.raises((ValueError, StopIteration)):
            message.loads(text)


def run(program: str) -> str:
    """Run a program in a bare interpreter."""
    return execute([sys.executable, "-I", "-c", program], check=True).stdout.strip()


# Importing them takes a sixth of the time of a process's first call. Packages that an environment's .pth files import
# are not gpuconf's.
def test_no_call_of_a_simple_program_imports_json() -> None:
    program = """
import sys
before = set(sys.modules)
import gpuconf
gpuconf.simulate("2xT4")
gpus = gpuconf.config.list_physical_devices("GPU")
gpuconf.config.set_visible_devices(gpus[0], "GPU")
gpuconf.config.set_logical_device_configuration(gpus[0], [gpuconf.config.LogicalDeviceConfiguration(memory_limit=64)])
with gpuconf.memory.allocate(1000):
    gpuconf.memory.stats()
print(*sorted({"json", "re", "enum", "typing", "logging"} & (set(sys.modules) - before)))
"""
    assert run(program) == ""


# A later Python may give these functions other arguments.
@pytest.mark.parametrize("other", ["del _json.make_scanner", "_json.make_encoder = lambda: None"])
def test_where_the_functions_in_c_are_missing_json_does_the_work(other: str) -> None:
    program = f"""
import _json
{other}
from gpuconf._core import message
import json
print(message.loads is json.loads and message.dumps is json.dumps)
"""
    assert run(program) == "True"
