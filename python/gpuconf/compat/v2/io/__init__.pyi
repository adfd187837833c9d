# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat.v2.io import gfile as gfile
