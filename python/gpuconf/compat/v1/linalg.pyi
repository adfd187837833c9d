# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat.v1._both import det as det
from gpuconf.compat.v1._both import diag as diag
from gpuconf.compat.v1._both import einsum as einsum
from gpuconf.compat.v1._both import eye as eye
from gpuconf.compat.v1._both import inv as inv
from gpuconf.compat.v1._ops import matmul as matmul
from gpuconf.compat.v1._both import matrix_transpose as matrix_transpose
from gpuconf.compat.v1._both import matvec as matvec
from gpuconf.compat.v1._both import norm as norm
from gpuconf.compat.v1._both import solve as solve
from gpuconf.compat.v1._both import tensordot as tensordot
from gpuconf.compat.v1._both import trace as trace
