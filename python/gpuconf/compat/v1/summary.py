# SPDX-License-Identifier: Apache-2.0
"""``tf.compat.v1.summary``: a writer that shows TensorBoard a graph and its devices.

No operation here makes summaries.
"""

from __future__ import annotations

import os
import sys

from ... import errors
from ..._missing import watch
from ..._typing import Any
from ._event_file import EventFile, encoded_graph
from ._mode import executing_eagerly

__all__ = ["FileWriter", "merge_all"]


class FileWriter:
    """Writes a graph into a file for TensorBoard: names, types, inputs and requested devices of its operations.

    Raises RuntimeError where operations run eagerly, and OSError if the folder cannot be written.
    """

    _ending = staticmethod(sys.is_finalizing)

    def __init__(
        self,
        logdir: Any,
        graph: Any = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        graph_def: Any = None,
        filename_suffix: str | None = None,
        session: Any = None,
    ) -> None:
        del max_queue, flush_secs, session
        if executing_eagerly():
            raise RuntimeError(
                "tf.summary.FileWriter is not compatible with eager execution. Use tf.contrib.summary instead."
            )
        self._folder, self._suffix = os.fspath(logdir), filename_suffix or ""
        self._file: EventFile | None = EventFile(self._folder, self._suffix)
        if graph is not None or graph_def is not None:
            self.add_graph(graph, graph_def=graph_def)

    def get_logdir(self) -> Any:
        """Return the folder."""
        return self._folder

    def add_graph(self, graph: Any, global_step: int | None = None, graph_def: Any = None) -> None:
        """Add a graph."""
        self._add(4, encoded_graph(graph.as_graph_def() if graph is not None else graph_def), global_step)

    def add_summary(self, summary: Any, global_step: int | None = None) -> None:
        """Add a summary that is serialized, as bytes. Raises UnimplementedError for others, which need TensorFlow."""
        if not isinstance(summary, bytes):
            raise errors.UnimplementedError("a summary that is not bytes needs TensorFlow: gpuconf has no summaries")
        self._add(5, summary, global_step)

    def _add(self, field: int, data: bytes, step: int | None) -> None:
        if self._file is None:
            self.reopen()
        assert self._file is not None
        self._file.write(field, data, None if step is None else int(step))

    def flush(self) -> None:
        """Write what is buffered."""
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """Close the file. Can be called again."""
        if self._file is not None:
            self._file.close()
        self._file = None

    def reopen(self) -> None:
        """Begin another file, if the last one is closed."""
        if self._file is None:
            self._file = EventFile(self._folder, self._suffix)

    def __enter__(self) -> FileWriter:
        return self

    def __exit__(self, *_: object) -> None:
        if self._ending():
            return
        self.close()


def merge_all(key: str = "summaries", scope: str | None = None, name: str | None = None) -> None:
    """Return None, as for a graph without summaries. Raises RuntimeError where operations run eagerly."""
    del key, scope, name
    if executing_eagerly():
        raise RuntimeError(
            "Merging tf.summary.* ops is not compatible with eager execution. Use tf.contrib.summary instead."
        )


def __dir__() -> list[str]:
    return __all__


watch(globals())
