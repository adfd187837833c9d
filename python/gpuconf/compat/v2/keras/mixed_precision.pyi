# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat._keras import DTypePolicy as DTypePolicy
from gpuconf.compat._optimizers import LossScaleOptimizer as LossScaleOptimizer
from gpuconf.compat._keras import DTypePolicy as _DTypePolicy
from gpuconf.compat._keras import dtype_policy as dtype_policy
from gpuconf.compat._keras import dtype_policy as _dtype_policy
from gpuconf.compat._keras import set_dtype_policy as set_dtype_policy
from gpuconf.compat._keras import set_dtype_policy as _set_dtype_policy

Policy = _DTypePolicy
global_policy = _dtype_policy
set_global_policy = _set_dtype_policy
