# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat._no_effect import initialize_tpu_system as initialize_tpu_system
from gpuconf.compat._no_effect import shutdown_tpu_system as shutdown_tpu_system
