# SPDX-License-Identifier: Apache-2.0
"""The errors of failed tasks, and the device memory that the locals of their frames hold."""

from __future__ import annotations

import gc

from distributed import worker

from .._core.tracked import instances
from ..memory._tracebacks import clear


def forget() -> None:
    """Clear the locals of the finished frames of all tasks of this process that failed.

    Dask has sent such an error as text and bytes, and needs the object no more. But the error and a frame in its
    traceback refer to each other, and when the worker changes the task's state, the thread that ran it may still hold
    the error: a collection would come too early. So the errors are looked for: their tracebacks begin in Dask's
    function that runs
    tasks.
    """
    for error in instances(BaseException):
        first = error.__traceback__
        if first is not None and first.tb_frame.f_code.co_filename == worker.__file__:
            clear(error)
    gc.collect()  # what a task's own reference cycles hold
