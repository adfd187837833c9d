# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat.v2 import test as test
from gpuconf.compat.v1 import logging as _logging
from gpuconf.compat.v2.python.platform import build_info as build_info

tf_logging = _logging
