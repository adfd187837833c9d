# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat.v2._ops import eye as eye
from gpuconf.compat.v2._ops import matmul as matmul
