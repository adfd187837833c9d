# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat.v1._session import InteractiveSession as InteractiveSession
from gpuconf.compat.v1._session import Session as Session
