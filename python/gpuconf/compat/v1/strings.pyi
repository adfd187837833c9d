# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat.v1._both import as_string as as_string
from gpuconf.compat.v1._both import join as join
from gpuconf.compat.v1._both import length as length
from gpuconf.compat.v1._both import lower as lower
from gpuconf.compat.v1._both import regex_replace as regex_replace
from gpuconf.compat.v1._both import strip as strip
from gpuconf.compat.v1._both import substr as substr
from gpuconf.compat.v1._both import to_number as to_number
from gpuconf.compat.v1._both import upper as upper
