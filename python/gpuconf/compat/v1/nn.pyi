# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat.v1._both import relu as relu
from gpuconf.compat.v1._both import sigmoid as sigmoid
from gpuconf.compat.v1._both import softmax as softmax
from gpuconf.compat.v1._both import tanh as tanh
