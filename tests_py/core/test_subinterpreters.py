"""The core has one state for the process.

A second interpreter, which does not know what the first one holds, is refused.
"""

from __future__ import annotations

import sys

import pytest
from script import run_well

# Runs a program in an interpreter of each kind that this Python supports: sharing the main one's GIL, or with its own.
BEGIN = """
import sys

def shared(code):
    try:
        from _testcapi import run_in_subinterp
    except ImportError:
        import _interpreters
        failure = _interpreters.exec(_interpreters.create("legacy"), code)
        assert failure is None, failure
    else:
        assert run_in_subinterp(code) == 0

def own(code):
    try:
        import _interpreters as interpreters
    except ImportError:
        import _xxsubinterpreters as interpreters
    number = interpreters.create()
    failure = getattr(interpreters, "exec", interpreters.run_string)(number, code)
    assert failure is None, failure
    interpreters.destroy(number)

CODE = '''
import gpuconf
for _ in range(2):
    for call in (lambda: gpuconf.simulate("2xT4"), gpuconf.memory.stats, lambda: gpuconf.memory.allocate(1)):
        try:
            call()
        except ImportError as error:
            assert "subinterpreter" in str(error), error
        else:
            raise AssertionError("no error")
'''
"""


def can_make(kind: str) -> bool:
    try:
        if kind == "shared" and sys.version_info < (3, 13):
            import _testcapi  # noqa: F401
        elif sys.version_info >= (3, 13):
            import _interpreters  # noqa: F401
        else:
            import _xxsubinterpreters  # noqa: F401
    except ImportError:
        return False
    return True


@pytest.mark.parametrize("kind", ["shared", "own"])
@pytest.mark.parametrize("first", ["main", "other"])
def test_a_subinterpreter_is_refused_and_the_main_one_works(kind: str, first: str) -> None:
    """An interpreter that shares the GIL got the same core as the main one, and could reset it despite the main one's
    views.
    """
    if not can_make(kind):
        pytest.skip("this Python was built without the modules that make subinterpreters")
    run_well(
        BEGIN
        + f"""
import gpuconf
if {first == "main"}:
    gpuconf.simulate("T4")
    buffer = gpuconf.memory.allocate(1000)
    view = buffer.view()
    view[:5] = b"hello"
{kind}(CODE)
if {first == "main"}:
    assert gpuconf.simulated() == "T4"
    assert bytes(view[:5]) == b"hello"
    buffer.free()
    del view
gpuconf.simulate("2xT4")
with gpuconf.memory.allocate(1000):
    assert gpuconf.memory.stats().live_blocks == 1
{kind}(CODE)
"""
    )
