# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat._facts import _PER_MODULE_WARNING_LIMIT as _PER_MODULE_WARNING_LIMIT
