# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat._absl import run as run
from gpuconf.compat.v1 import flags as flags
