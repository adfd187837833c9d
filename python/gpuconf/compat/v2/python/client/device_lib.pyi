# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat._devices import list_local_devices as list_local_devices
