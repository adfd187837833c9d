# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat.v2._ops import relu as relu
from gpuconf.compat.v2._ops import sigmoid as sigmoid
from gpuconf.compat.v2._ops import softmax as softmax
from gpuconf.compat.v2._ops import tanh as tanh
