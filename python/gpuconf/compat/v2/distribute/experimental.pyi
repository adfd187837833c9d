# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat._strategies import CentralStorageStrategy as CentralStorageStrategy
from gpuconf.compat._strategies import CommunicationImplementation as _CommunicationImplementation
from gpuconf.compat._strategies import CommunicationImplementation as CommunicationImplementation
from gpuconf.compat._strategies import CommunicationOptions as CommunicationOptions
from gpuconf.compat._strategies import MultiWorkerMirroredStrategy as MultiWorkerMirroredStrategy
from gpuconf.compat._strategies import TPUStrategy as TPUStrategy
from gpuconf.compat._replicas import ValueContext as ValueContext

CollectiveCommunication = _CommunicationImplementation
