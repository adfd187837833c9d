# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat._keras import DTypePolicy as DTypePolicy
from gpuconf.compat._keras import __version__ as __version__
from gpuconf.compat._keras import version as version
from gpuconf.compat.v2.keras import mixed_precision as mixed_precision
from gpuconf.compat.v2.keras import config as config
from gpuconf.compat.v2.keras import backend as backend
from gpuconf.compat.v2.keras import callbacks as callbacks
from gpuconf.compat.v2.keras import utils as utils
from gpuconf.compat.v2.keras import optimizers as optimizers
