# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat._no_effect import set_verbosity as set_verbosity
from gpuconf.compat.v2.autograph import experimental as experimental
