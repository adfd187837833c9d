# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat._keras import backend as backend
from gpuconf.compat._keras import forget_session as _forget_session
from gpuconf.compat._keras import epsilon as epsilon
from gpuconf.compat._keras import floatx as floatx
from gpuconf.compat._keras import get_session as get_session
from gpuconf.compat._keras import image_data_format as image_data_format
from gpuconf.compat._keras import manual_variable_initialization as manual_variable_initialization
from gpuconf.compat._keras import set_epsilon as set_epsilon
from gpuconf.compat._keras import set_floatx as set_floatx
from gpuconf.compat._keras import set_image_data_format as set_image_data_format
from gpuconf.compat._keras import set_learning_phase as set_learning_phase
from gpuconf.compat._keras import set_session as set_session

clear_session = _forget_session
