# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat.v2.python.eager import context as context
