# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat._dtypes import DType as DType
from gpuconf.compat._dtypes import as_dtype as as_dtype
from gpuconf.compat.v2._ops import cast as cast
