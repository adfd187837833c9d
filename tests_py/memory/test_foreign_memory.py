"""Host memory at an address that the program supplies.

An object with the address 16 in ``__array_interface__`` led to InternalError, after which the core refused all calls; a
higher address crashed the process. Runs in separate processes, because a fault that is not caught ends the process.
"""

from __future__ import annotations

import ctypes

import gpuconf
import pytest
from script import run_well

np = pytest.importorskip("numpy")

BEGIN = """
import ctypes, mmap
import numpy as np
import gpuconf
from gpuconf.compat import v1

gpuconf.simulate("T4:64MiB")

class Array:
    def __init__(self, address, shape=(2,), typestr="<f4", **more):
        self.__array_interface__ = {"data": (address, False), "shape": shape, "typestr": typestr, "version": 3, **more}

class Struct:
    def __init__(self, address):
        class Interface(ctypes.Structure):
            _fields_ = [("two", ctypes.c_int), ("nd", ctypes.c_int), ("kind", ctypes.c_char),
                        ("itemsize", ctypes.c_int),
                        ("flags", ctypes.c_int), *((name, ctypes.c_void_p) for name in ("shape", "strides", "data"))]
        self.shape, self.strides = (ctypes.c_ssize_t * 1)(2), (ctypes.c_ssize_t * 1)(4)
        self.interface = Interface(2, 1, b"f", 4, 0x701, ctypes.addressof(self.shape), ctypes.addressof(self.strides),
                                   address)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        self.__array_struct__ = new(ctypes.addressof(self.interface), None, None)

good = np.arange(4, dtype="f4")
there = good.ctypes.data
buffer = gpuconf.memory.allocate(64)

with v1.Graph().as_default():
    tensor = v1.constant([1.0, 2.0])
    session = v1.Session()

def feed(value):
    session.run(tensor, {tensor: value})

def refused(call, *arguments):
    try:
        call(*arguments)
    except (ValueError, TypeError):
        return
    raise AssertionError(f"{arguments} was taken")
"""
END = """
assert gpuconf.constant([1.0]).numpy() == [1]     # the core still works
assert gpuconf.memory.stats().live_blocks == 1
buffer.free()
"""


def test_arrays_at_bad_addresses_are_refused() -> None:
    run_well(BEGIN + """
for address in (16, 0x10000, 1 << 46, 0xffff800000000000, 1 << 64, -4096, 0):
    refused(gpuconf.constant, Array(address))
    refused(gpuconf.constant, Array(address, typestr=">f4"))          # NumPy itself would read it, to convert it
    refused(gpuconf.add, Array(address), [1.0, 2.0])
    refused(gpuconf.add_n, [[1.0, 2.0], Array(address)])
    refused(gpuconf.constant, [Array(address), Array(address)])
    refused(v1.constant, Array(address))
    refused(feed, Array(address))
    refused(feed, [Array(address)])
    if 0 < address < 1 << 63:
        refused(gpuconf.constant, np.asarray(Array(address)))
        refused(gpuconf.constant, np.asarray(Array(address, shape=(6,)))[2:4])
        refused(gpuconf.constant, memoryview(np.asarray(Array(address))))
        refused(gpuconf.constant, Struct(address))
        refused(gpuconf.constant, (ctypes.c_float * 2).from_address(address))
        refused(gpuconf.constant, np.frombuffer((ctypes.c_float * 2).from_address(address), "f4"))
refused(gpuconf.constant, Array(there, strides=(1 << 40,)))
refused(gpuconf.constant, Array(there, strides=(-(1 << 40),)))
refused(gpuconf.constant, Array(there, shape=(1 << 40,)))
refused(gpuconf.constant, Array(there, shape=(1 << 62,)))
refused(gpuconf.constant, Array(there, typestr="|O"))                 # addresses of objects
""" + END)  # fmt: skip


def test_copies_from_and_to_bad_addresses_are_refused() -> None:
    run_well(BEGIN + """
for address in (0, 16, 0x10000, 1 << 46, 0xffff800000000000):
    for bad in ((ctypes.c_ubyte * 16).from_address(address),
                memoryview((ctypes.c_ubyte * 16).from_address(address)).cast("B")):
        refused(buffer.copy_from_host, bad)
        refused(buffer.copy_to_host, bad)
refused(buffer.copy_from_host, np.asarray(Array(16)))
refused(buffer.copy_to_host, np.asarray(Array(16)))
constant = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ)
address = np.frombuffer(constant, "u1").ctypes.data
read_only = (ctypes.c_ubyte * 16).from_address(address)
buffer.copy_from_host(read_only)
refused(buffer.copy_to_host, read_only)                               # ctypes claims that it is writable
""" + END)  # fmt: skip


def test_good_addresses_are_taken(one_gpu: None) -> None:
    numbers = np.arange(4, dtype="f4")

    class Array:
        def __init__(self, **interface: object) -> None:
            self.__array_interface__ = {"typestr": "<f4", "version": 3, **interface}

    data = (numbers.ctypes.data, True)
    assert gpuconf.constant(Array(data=data, shape=(4,))).numpy().tolist() == [0, 1, 2, 3]
    assert gpuconf.constant(Array(data=(data[0] + 12, True), shape=(2,), strides=(-8,))).numpy().tolist() == [3, 1]
    assert gpuconf.constant([Array(data=data, shape=(2,)), numbers[2:]]).numpy().tolist() == [[0, 1], [2, 3]]
    assert gpuconf.constant(Array(data=data, shape=(0,))).shape == (0,)
    assert gpuconf.constant((ctypes.c_float * 2)(5, 6)).numpy().tolist() == [5, 6]
    with gpuconf.memory.allocate(16) as buffer:
        buffer.copy_from_host((ctypes.c_float * 4)(*numbers))
        out = (ctypes.c_float * 4)()
        assert list(buffer.copy_to_host(out)) == [0, 1, 2, 3]
        assert gpuconf.constant(np.frombuffer(buffer.view(), "f4")).numpy().tolist() == [0, 1, 2, 3]


def test_memory_across_several_mappings_is_taken() -> None:
    """Adjacent mappings with different permissions: together they are one readable range."""
    run_well(BEGIN + """
pages = mmap.mmap(-1, 3 * mmap.PAGESIZE)
address = ctypes.addressof(ctypes.c_ubyte.from_buffer(pages))
protect = ctypes.CDLL(None).mprotect
assert protect(ctypes.c_void_p(address + mmap.PAGESIZE), ctypes.c_size_t(mmap.PAGESIZE), mmap.PROT_READ) == 0
with gpuconf.memory.allocate(len(pages)) as large:
    large.copy_from_host((ctypes.c_ubyte * len(pages)).from_address(address))
    refused(large.copy_to_host, (ctypes.c_ubyte * len(pages)).from_address(address))
""" + END)  # fmt: skip
