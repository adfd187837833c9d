# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat.v1._both import eye as eye
from gpuconf.compat.v1._ops import matmul as matmul
