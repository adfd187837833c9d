# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat._data import AUTOTUNE as AUTOTUNE
from gpuconf.compat._data import AutoShardPolicy as AutoShardPolicy
from gpuconf.compat._data import AutotuneOptions as AutotuneOptions
from gpuconf.compat._data import DistributeOptions as DistributeOptions
from gpuconf.compat._data import INFINITE_CARDINALITY as INFINITE_CARDINALITY
from gpuconf.compat._data import OptimizationOptions as OptimizationOptions
from gpuconf.compat._data import ThreadingOptions as ThreadingOptions
from gpuconf.compat._data import UNKNOWN_CARDINALITY as UNKNOWN_CARDINALITY
