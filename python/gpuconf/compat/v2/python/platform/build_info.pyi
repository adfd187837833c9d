# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat._facts import build_info as build_info
