# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat.v2._ops import as_string as as_string
from gpuconf.compat.v2._ops import join as join
from gpuconf.compat.v2._ops import length as length
from gpuconf.compat.v2._ops import lower as lower
from gpuconf.compat.v2._ops import regex_replace as regex_replace
from gpuconf.compat.v2._ops import strip as strip
from gpuconf.compat.v2._ops import substr as substr
from gpuconf.compat.v2._ops import to_number as to_number
from gpuconf.compat.v2._ops import upper as upper
