# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat.v1.keras import backend as backend
