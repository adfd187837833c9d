# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat._files import as_bytes as as_bytes
from gpuconf.compat._files import as_text as _as_text
from gpuconf.compat._files import as_str_any as as_str_any
from gpuconf.compat._files import as_text as as_text
from gpuconf.compat._files import path_to_str as path_to_str
from gpuconf.compat import v1 as v1
from gpuconf.compat import v2 as v2

as_str = _as_text
