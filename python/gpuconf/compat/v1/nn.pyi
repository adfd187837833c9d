# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat.v1._both import elu as elu
from gpuconf.compat.v1._both import leaky_relu as leaky_relu
from gpuconf.compat.v1._both import log_softmax as log_softmax
from gpuconf.compat.v1._both import relu as relu
from gpuconf.compat.v1._both import relu6 as relu6
from gpuconf.compat.v1._both import sigmoid as sigmoid
from gpuconf.compat.v1._both import silu as silu
from gpuconf.compat.v1._both import softmax as softmax
from gpuconf.compat.v1._both import softplus as softplus
from gpuconf.compat.v1._both import silu as _silu
from gpuconf.compat.v1._both import tanh as tanh

swish = _silu
