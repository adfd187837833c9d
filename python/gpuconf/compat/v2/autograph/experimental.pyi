# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat._no_effect import do_not_convert as do_not_convert
