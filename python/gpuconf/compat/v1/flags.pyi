# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat._absl import FLAGS as FLAGS
from typing import Any


def __getattr__(name: str) -> Any: ...
