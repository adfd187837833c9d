# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat.v2._ops import add as add
from gpuconf.compat.v2._ops import add_n as add_n
from gpuconf.compat.v2._ops import divide as divide
from gpuconf.compat.v2._ops import exp as exp
from gpuconf.compat.v2._ops import multiply as multiply
from gpuconf.compat.v2._ops import pow as pow
from gpuconf.compat.v2._ops import reduce_max as reduce_max
from gpuconf.compat.v2._ops import reduce_mean as reduce_mean
from gpuconf.compat.v2._ops import reduce_sum as reduce_sum
from gpuconf.compat.v2._ops import sqrt as sqrt
from gpuconf.compat.v2._ops import square as square
from gpuconf.compat.v2._ops import subtract as subtract
