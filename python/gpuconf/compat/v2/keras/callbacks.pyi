# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat._keras import Callback as Callback
