# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat.v2.python.util import deprecation as deprecation
from gpuconf.compat.v2.python.util import module_wrapper as module_wrapper
