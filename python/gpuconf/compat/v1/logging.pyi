# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat._logging import DEBUG as DEBUG
from gpuconf.compat._logging import ERROR as ERROR
from gpuconf.compat._logging import FATAL as FATAL
from gpuconf.compat._logging import INFO as INFO
from gpuconf.compat._logging import TaskLevelStatusMessage as TaskLevelStatusMessage
from gpuconf.compat._logging import WARN as WARN
from gpuconf.compat._logging import debug as debug
from gpuconf.compat._logging import error as error
from gpuconf.compat._logging import fatal as fatal
from gpuconf.compat._logging import flush as flush
from gpuconf.compat._logging import get_verbosity as get_verbosity
from gpuconf.compat._logging import info as info
from gpuconf.compat._logging import log as log
from gpuconf.compat._logging import log_every_n as log_every_n
from gpuconf.compat._logging import log_first_n as log_first_n
from gpuconf.compat._logging import log_if as log_if
from gpuconf.compat._logging import set_verbosity as set_verbosity
from gpuconf.compat._logging import log as _log
from gpuconf.compat._logging import warning as _warning
from gpuconf.compat._logging import warning as warning

vlog = _log
warn = _warning
