# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat.v2._ops import elu as elu
from gpuconf.compat.v2._ops import leaky_relu as leaky_relu
from gpuconf.compat.v2._ops import log_softmax as log_softmax
from gpuconf.compat.v2._ops import relu as relu
from gpuconf.compat.v2._ops import relu6 as relu6
from gpuconf.compat.v2._ops import sigmoid as sigmoid
from gpuconf.compat.v2._ops import silu as silu
from gpuconf.compat.v2._ops import softmax as softmax
from gpuconf.compat.v2._ops import softplus as softplus
from gpuconf.compat.v2._ops import silu as _silu
from gpuconf.compat.v2._ops import tanh as tanh

swish = _silu
