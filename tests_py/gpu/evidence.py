"""What the machine says of a step that ran: the driver's own log, the kernel's, and the state of the card."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

left_behind: list[subprocess.Popen[bytes]] = []
SHOWN = 20_000  # bytes of one log
OF_THE_CARD = re.compile(
    "NVRM|Xid|nvidia|segfault|general protection|out of memory|oom-kill|blocked for more", re.IGNORECASE
)


def kernel_log(since: float = 0.0) -> list[str]:
    """What the kernel has said of the card, of crashes and of memory since a time of time.monotonic().

    Only root may read it.
    """
    with (
        contextlib.suppress(OSError),
        open("/dev/kmsg", opener=lambda path, _: os.open(path, os.O_RDONLY | os.O_NONBLOCK)) as log,
    ):
        return lines_of(log.fileno(), since)
    return []


def lines_of(log: int, since: float) -> list[str]:
    """The same of a log that is open: each read returns a record, "priority,number,microseconds,flags;text" and lines
    with more.
    """
    lines = []
    while record := _record(log):
        head, _, text = record.partition(";")
        if int(head.split(",")[2]) / 1e6 >= since - 5 and OF_THE_CARD.search(text):
            lines.append(text.partition("\n")[0])
    return lines[-100:]


def _record(log: int) -> str:
    """The next record, "" after the last one. Records that the kernel has dropped in the meantime are passed over."""
    while True:
        try:
            return os.read(log, 8192).decode(errors="replace")
        except BlockingIOError:
            return ""
        except OSError as error:
            if error.errno != errno.EPIPE:
                raise


def said(command: list[str], seconds: float = 45.0) -> str:
    """A command's output, or why there is none.

    A command that waits for a GPU that hangs cannot be ended, and is left behind.
    """
    path = os.environ.get("PATH", "") + ":/sbin:/usr/sbin:/usr/local/cuda/bin"
    where = shutil.which(command[0], path=path) or command[0]
    with tempfile.TemporaryFile() as file:
        try:
            process = subprocess.Popen(
                [where, *command[1:]], stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT
            )
        except OSError as error:
            return str(error)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired as late:
            process.kill()
            left_behind.append(process)
            return str(late)
        file.seek(0)
        return file.read().decode(errors="replace")


def of_step(begin: float, driver_log: Path, failed: bool) -> dict[str, object]:
    """What belongs to the results of a step that began at a time of time.monotonic()."""
    found: dict[str, object] = {}
    if lines := kernel_log(begin):
        found["kernel_log"] = lines
    if not failed:
        return found
    with contextlib.suppress(OSError):
        found["driver_log"] = driver_log.read_bytes()[-SHOWN:].decode(errors="replace")
    return found | {"nvidia_smi": said(["nvidia-smi"], 20)}


def error_name(result: int) -> str:
    """The driver's name of a CUresult."""
    text = ctypes.c_char_p()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libcuda.so.1").cuGetErrorName(result, ctypes.byref(text))
    return f"{(text.value or b'CUDA_ERROR').decode()} ({result})"
