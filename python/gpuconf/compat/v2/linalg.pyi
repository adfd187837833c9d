# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat.v2._ops import det as det
from gpuconf.compat.v2._ops import diag as diag
from gpuconf.compat.v2._ops import einsum as einsum
from gpuconf.compat.v2._ops import eye as eye
from gpuconf.compat.v2._ops import inv as inv
from gpuconf.compat.v2._ops import matmul as matmul
from gpuconf.compat.v2._ops import matrix_transpose as matrix_transpose
from gpuconf.compat.v2._ops import matvec as matvec
from gpuconf.compat.v2._ops import norm as norm
from gpuconf.compat.v2._ops import solve as solve
from gpuconf.compat.v2._ops import tensordot as tensordot
from gpuconf.compat.v2._ops import trace as trace
