"""Mistakes of users and the answers to them: mistakes.txt, which mistakes.py writes anew."""

from __future__ import annotations

import difflib
import re
import sys

import mistakes
import pytest
from script import environment, execute


def test_mistakes() -> None:
    """Each says what is wrong, names the value, and says what to do. Read the difference before you accept it."""
    pytest.importorskip("IPython", reason="IPython is not installed")
    done = execute([sys.executable, mistakes.__file__], check=True, timeout=600, env=environment())
    wanted = mistakes.FILE.read_text()
    assert done.stdout == wanted, "".join(
        difflib.unified_diff(wanted.splitlines(keepends=True), done.stdout.splitlines(keepends=True), n=1)
    )


def test_no_message_is_a_traceback_or_a_system_s_number() -> None:
    text = re.sub(r"python: can't open file .*|FileNotFoundError: .*", "", mistakes.FILE.read_text())
    assert not re.search(r"Traceback|\[Errno|expected one argument", text)
