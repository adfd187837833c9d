# SPDX-License-Identifier: Apache-2.0
"""What the sequences and programs share: structures of the driver, and a module."""

import ctypes

from answers import Cell, cell

MIB = 1 << 20
BLOCK = 2 * MIB
FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
NOTHING = FUNCTION(lambda _data: None)
NOTHING_OF_STREAM = CALLBACK(lambda _stream, _status, _data: None)
HOST_FUNCTION = ctypes.cast(NOTHING, ctypes.c_void_p).value or 0
STREAM_CALLBACK = ctypes.cast(NOTHING_OF_STREAM, ctypes.c_void_p).value or 0
PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .global .align 4 .b8 counter[16];
.visible .const .align 4 .b8 fixed[8];
.visible .entry nothing() { ret; }
.visible .entry store(.param .u64 p, .param .u32 v)
{
 .reg .u64 %a; .reg .u32 %b;
 ld.param.u64 %a, [p]; ld.param.u32 %b, [v]; cvta.to.global.u64 %a, %a; st.global.u32 [%a], %b; ret;
}
.visible .entry bounded() .maxntid 64, 1, 1 { ret; }
\0"""


def prop(
    kind: int = 1,
    handles: int = 0,
    where: int = 1,
    device: int = 0,
    compression: int = 0,
    rdma: int = 0,
    usage: int = 0,
) -> Cell:
    """Return a CUmemAllocationProp."""
    return cell("IIIiQBBHI", kind, handles, where, device, 0, compression, rdma, usage, 0)


def access(flags: int = 3, where: int = 1, device: int = 0) -> Cell:
    """Return a CUmemAccessDesc."""
    return cell("IiI", where, device, flags)


def pool_props(kind: int = 1, handles: int = 0, where: int = 1, device: int = 0, most: int = 0, usage: int = 0) -> Cell:
    """Return a CUmemPoolProps."""
    return cell("IIIiQQH", kind, handles, where, device, 0, most, usage, size=88)


def alignment(pointer: int) -> int:
    """Return the alignment of an address, up to 2 MiB."""
    return min(pointer & -pointer, BLOCK)
