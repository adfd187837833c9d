# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat._devices import gpu_device_name as gpu_device_name
from gpuconf.compat._devices import is_built_with_cuda as is_built_with_cuda
from gpuconf.compat._devices import is_built_with_gpu_support as is_built_with_gpu_support
from gpuconf.compat._devices import is_built_with_rocm as is_built_with_rocm
from gpuconf.compat._devices import is_built_with_xla as is_built_with_xla
from gpuconf.compat._devices import is_gpu_available as is_gpu_available
