# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat._devices import GpuInfo as GpuInfo
from gpuconf.compat._devices import compute_capability_from_device_desc as compute_capability_from_device_desc
