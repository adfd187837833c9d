# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat._files import GFile as GFile
from gpuconf.compat._files import copy as copy
from gpuconf.compat._files import exists as exists
from gpuconf.compat._files import glob as glob
from gpuconf.compat._files import isdir as isdir
from gpuconf.compat._files import join as join
from gpuconf.compat._files import listdir as listdir
from gpuconf.compat._files import makedirs as makedirs
from gpuconf.compat._files import mkdir as mkdir
from gpuconf.compat._files import remove as remove
from gpuconf.compat._files import rename as rename
from gpuconf.compat._files import rmtree as rmtree
from gpuconf.compat._files import stat as stat
from gpuconf.compat._files import walk as walk
