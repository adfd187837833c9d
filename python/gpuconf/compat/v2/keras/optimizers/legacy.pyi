# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat._optimizers import LegacyOptimizer as _LegacyOptimizer

Adagrad = _LegacyOptimizer
Adam = _LegacyOptimizer
Ftrl = _LegacyOptimizer
Optimizer = _LegacyOptimizer
RMSprop = _LegacyOptimizer
SGD = _LegacyOptimizer
