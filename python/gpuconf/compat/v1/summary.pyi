# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat._summary import FileWriter as FileWriter
from gpuconf.compat._summary import merge_all as merge_all
