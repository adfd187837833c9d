# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat.v2._ops import Generator as Generator
from gpuconf.compat.v2._ops import get_global_generator as get_global_generator
from gpuconf.compat.v2._ops import normal as normal
from gpuconf.compat.v2._ops import set_global_generator as set_global_generator
from gpuconf.compat.v2._ops import set_seed as set_seed
from gpuconf.compat.v2._ops import shuffle as shuffle
from gpuconf.compat.v2._ops import truncated_normal as truncated_normal
from gpuconf.compat.v2._ops import uniform as uniform
