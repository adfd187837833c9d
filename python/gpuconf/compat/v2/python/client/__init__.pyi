# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat.v2.python.client import device_lib as device_lib
from gpuconf.compat.v2.python.client import session as session
