# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf import errors as errors
from gpuconf import errors as _errors
from gpuconf.compat.v2.python.framework import gpu_util as gpu_util
from gpuconf.compat.v2.python.framework import config as config
from gpuconf.compat.v2.python.framework import dtypes as dtypes
from gpuconf.compat.v2.python.framework import ops as ops

errors_impl = _errors
