# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat._no_effect import experimental_enable_numpy_behavior as experimental_enable_numpy_behavior
