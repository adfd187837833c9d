# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat._keras import clear_session as clear_session
from gpuconf.compat._keras import deserialize_keras_object as deserialize_keras_object
from gpuconf.compat._keras import disable_interactive_logging as disable_interactive_logging
from gpuconf.compat._keras import enable_interactive_logging as enable_interactive_logging
from gpuconf.compat._keras import is_interactive_logging_enabled as is_interactive_logging_enabled
from gpuconf.compat._keras import serialize_keras_object as serialize_keras_object
from gpuconf.compat._keras import set_random_seed as set_random_seed
