# Generated from names.txt by tests_py/oracle/message_stubs.py.

from gpuconf.compat._files import copy as _copy
from gpuconf.compat._files import rmtree as _rmtree
from gpuconf.compat._files import exists as _exists
from gpuconf.compat._files import GFile as _GFile
from gpuconf.compat._files import GFile as GFile
from gpuconf.compat._files import glob as _glob
from gpuconf.compat._files import isdir as _isdir
from gpuconf.compat._files import listdir as _listdir
from gpuconf.compat._files import makedirs as _makedirs
from gpuconf.compat._files import mkdir as _mkdir
from gpuconf.compat._files import remove as _remove
from gpuconf.compat._files import rename as _rename
from gpuconf.compat._files import stat as _stat
from gpuconf.compat._files import walk as _walk

Copy = _copy
DeleteRecursively = _rmtree
Exists = _exists
FastGFile = _GFile
Glob = _glob
IsDirectory = _isdir
ListDirectory = _listdir
MakeDirs = _makedirs
MkDir = _mkdir
Open = _GFile
Remove = _remove
Rename = _rename
Stat = _stat
Walk = _walk
