# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat._clusters import ClusterResolver as ClusterResolver
from gpuconf.compat._clusters import GCEClusterResolver as GCEClusterResolver
from gpuconf.compat._clusters import KubernetesClusterResolver as KubernetesClusterResolver
from gpuconf.compat._clusters import SimpleClusterResolver as SimpleClusterResolver
from gpuconf.compat._clusters import SlurmClusterResolver as SlurmClusterResolver
from gpuconf.compat._clusters import TFConfigClusterResolver as TFConfigClusterResolver
from gpuconf.compat._clusters import TPUClusterResolver as TPUClusterResolver
from gpuconf.compat._clusters import UnionResolver as UnionResolver
