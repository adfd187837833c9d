# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat._facts import CXX11_ABI_FLAG as CXX11_ABI_FLAG
from gpuconf.compat._facts import CXX_VERSION as CXX_VERSION
from gpuconf.compat._facts import MONOLITHIC_BUILD as MONOLITHIC_BUILD
from gpuconf.compat._facts import get_build_info as get_build_info
from gpuconf.compat._facts import get_compile_flags as get_compile_flags
from gpuconf.compat._facts import get_include as get_include
from gpuconf.compat._facts import get_lib as get_lib
from gpuconf.compat._facts import get_link_flags as get_link_flags
