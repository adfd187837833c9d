# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat._facts import _PRINT_DEPRECATION_WARNINGS as _PRINT_DEPRECATION_WARNINGS
