# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat.v1._both import random_normal as _random_normal
from gpuconf.compat.v1._mode import set_random_seed as set_random_seed
from gpuconf.compat.v1._both import truncated_normal as truncated_normal
from gpuconf.compat.v1._both import random_uniform as _random_uniform

normal = _random_normal
uniform = _random_uniform
