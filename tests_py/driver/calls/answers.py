# SPDX-License-Identifier: Apache-2.0
"""Calls of the driver and of NVML by ctypes, written down with what they answered.

Each call is a line of JSON, `[what, code, values]`. The first part of it is written before the call: a line that ends
there names the call that did not return.
"""

import ctypes
import json
import os
import struct
import time
from collections.abc import Callable
from typing import Any

WORD = (1 << 64) - 1


class Cell:
    """Memory for what a call writes: `bytes` of them, filled with `filling`."""

    def __init__(self, size: int = 8, filling: bytes = b"") -> None:
        self.memory = ctypes.create_string_buffer(max(size, len(filling)))
        ctypes.memmove(self.memory, filling, len(filling))
        self.address = ctypes.addressof(self.memory)

    def get(self, form: str = "Q", at: int = 0) -> Any:
        """Return the value of one field."""
        return struct.unpack_from("<" + form, self.memory, at)[0]

    def all(self, form: str, at: int = 0) -> list[Any]:
        """Return the fields."""
        return list(struct.unpack_from("<" + form, self.memory, at))

    @property
    def v(self) -> int:
        """The eight bytes as a number."""
        return int(self.get("Q"))

    @property
    def u(self) -> int:
        """The first four bytes as a number."""
        return int(self.get("I"))

    @property
    def i(self) -> int:
        """The first four bytes as a signed number."""
        return int(self.get("i"))

    @property
    def text(self) -> str:
        """The text up to the first zero byte."""
        return self.memory.value.decode("utf-8", "replace")


def cell(form: str, *values: Any, size: int = 0) -> Cell:
    """Return a structure of these fields."""
    return Cell(size, struct.pack("<" + form, *values))


class Calls:
    """One library, whose calls are written to a file descriptor."""

    avoided: frozenset[int] = frozenset()  # the numbers of calls that crashed when the unit ran before

    def __init__(self, library: str, descriptor: int) -> None:
        self.library = ctypes.CDLL(library)
        self.descriptor = descriptor
        self.skip = 0  # calls that are left out, because the last of them crashed before
        self.number = 0

    def has(self, name: str) -> bool:
        """Tell whether the library exports the function."""
        return hasattr(self.library, name)

    def quiet(self, name: str, *arguments: Any) -> int:
        """Call a function without a line, and return its code; -1 if there is none."""
        if not self.has(name):
            return -1
        function = getattr(self.library, name)
        function.restype = ctypes.c_int
        return int(function(*[_argument(one) for one in arguments]))

    def note(self, what: str, value: Any) -> None:
        """Write down a value that no single call returned."""
        os.write(self.descriptor, (json.dumps([what, "note", value]) + "\n").encode())

    def __call__(
        self, name: str, *arguments: Any, say: str = "", v: Callable[[], Any] | None = None, always: bool = False
    ) -> int:
        """Call a function; `v` computes what is worth keeping, of a call that succeeded or of any."""
        self.number += 1
        if self.number <= self.skip:
            return -2
        what = f"{name} {say}" if say else name
        if self.number in self.avoided:
            os.write(self.descriptor, (json.dumps([what, "crash"]) + "\n").encode())
            return -2
        os.write(self.descriptor, ("[" + json.dumps(what)).encode())
        code = self.quiet(name, *arguments)
        values = None
        if v is not None and (code == 0 or always):
            try:
                values = v()
            except Exception as error:
                values = repr(error)
        os.write(
            self.descriptor,
            (", " + json.dumps(code) + ("" if values is None else ", " + json.dumps(values)) + "]\n").encode(),
        )
        return code


def _argument(one: Any) -> Any:
    if isinstance(one, Cell):
        return ctypes.c_void_p(one.address)
    if isinstance(one, bytes):
        return ctypes.c_char_p(one)
    if isinstance(one, int):
        return ctypes.c_uint64(one & WORD)
    return one


class Driver(Calls):
    """The CUDA driver."""

    def __init__(self, descriptor: int) -> None:
        super().__init__("libcuda.so.1", descriptor)

    def init(self) -> None:
        """Call cuInit."""
        code = self.quiet("cuInit", 0)
        if code:
            raise SystemExit(f"cuInit answers {code}")

    def context(self) -> int:
        """Make the primary context current, as CUDA's runtime does, and return it."""
        self.init()
        handle = Cell()
        code = self.quiet("cuDevicePrimaryCtxRetain", handle, 0) or self.quiet("cuCtxSetCurrent", handle.v)
        if code:
            raise SystemExit(f"no context: {code}")
        return handle.v

    def alloc(self, size: int) -> int:
        """Allocate device memory."""
        pointer = Cell()
        self.quiet("cuMemAlloc_v2", pointer, size)
        return pointer.v

    def stream(self, flags: int = 1) -> int:
        """Create a stream."""
        handle = Cell()
        self.quiet("cuStreamCreate", handle, flags)
        return handle.v

    def event(self, flags: int = 0) -> int:
        """Create an event."""
        handle = Cell()
        self.quiet("cuEventCreate", handle, flags)
        return handle.v

    def free_memory(self) -> int:
        """Return what cuMemGetInfo calls free."""
        free, total = Cell(), Cell()
        self.quiet("cuMemGetInfo_v2", free, total)
        return free.v

    def settled(self, stream: int, seconds: float = 1.0) -> None:
        """Wait until a stream has nothing to do, by asking, so that a time limit holds."""
        end = time.monotonic() + seconds
        while self.quiet("cuStreamQuery", stream) == 600 and time.monotonic() < end:
            time.sleep(0.001)
