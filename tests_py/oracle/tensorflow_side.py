"""TensorFlow as one of the two sides of a comparison: its own runtime, with imaginary GPUs."""

import contextlib
import ctypes
import io
import logging
import os
import re
import tempfile
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.eager import context
from tensorflow.python.framework import error_interpolation

from .cpp import build
from .machine import CARDS, FIRST_REGION, Names, compiled, short

logging.getLogger("tensorflow").setLevel(logging.CRITICAL)

# It adds the line of the program that made a failing node, and crashes if that line is in no file.
error_interpolation.interpolate_graph = lambda message, _: message

_libc = ctypes.CDLL(None)


@contextlib.contextmanager
def captured_output() -> Iterator[io.StringIO]:
    """The output of native code to standard output during a block."""
    told = io.StringIO()
    _libc.fflush(None)
    kept = os.dup(1)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 1)
        try:
            yield told
        finally:
            _libc.fflush(None)
            os.dup2(kept, 1)
            os.close(kept)
            file.seek(0)
            told.write(file.read().decode(errors="replace"))


class TensorFlow:
    """TensorFlow's own runtime, with imaginary GPUs."""

    name = "TensorFlow"

    def __init__(self) -> None:
        self.gpus = ctypes.CDLL(str(build.cpp("imaginary_gpus.cc", shared=True)))
        self.gpus.oracle_made_limit.restype = ctypes.c_int64
        self.names = Names(tf, lambda: context.context().device_name or "")
        self.names["facts"] = self._facts
        self.names["made"] = self._made
        self.names["graph"] = self._graph
        self.names["start"] = lambda config: context._set_context(context.Context(config=config))
        self.names["v2"] = tf

    def fresh(self, gpus: int) -> None:
        self.names.forget()
        self.gpus.oracle_clear_cards()
        for card in CARDS[:gpus]:
            self.gpus.oracle_add_card(
                card.product.encode(), card.major, card.minor, ctypes.c_int64(card.bytes), card.greatest_priority
            )
        tf.config.run_functions_eagerly(False)
        tf.config.experimental.enable_tensor_float_32_execution(True)
        context._set_context(context.Context())
        context._device_parsing_cache.clear()

    def evaluate(self, call: str) -> Any:
        return eval(compiled(call), self.names)

    def _facts(self) -> list[Any]:
        """Limit and growth of each logical GPU. Initializes."""
        tf.config.list_logical_devices()
        limits = [self.gpus.oracle_made_limit(i) for i in range(self.gpus.oracle_made())]
        return [
            (limit, limit > FIRST_REGION and bool(self.gpus.oracle_made_growth(i))) for i, limit in enumerate(limits)
        ]

    def _made(self) -> list[Any]:
        """The GPUs created last: card, growth, limit, priority."""
        facts = (
            self.gpus.oracle_made_card,
            self.gpus.oracle_made_growth,
            self.gpus.oracle_made_limit,
            self.gpus.oracle_made_priority,
        )
        return [tuple(fact(i) for fact in facts) for i in range(self.gpus.oracle_made())]

    def _graph(self, lines: list[tuple[Any, ...]], *, soft: bool) -> list[tuple[str, str]]:
        """The devices of a graph's nodes in a session, by name. Optimization is off: all nodes remain."""
        config = context.context().config
        config.allow_soft_placement, config.log_device_placement = soft, True
        config.graph_options.optimizer_options.opt_level = -1
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        with tf.Graph().as_default():
            nodes = self.names.build(lines)
            with tf.compat.v1.Session(config=config) as session, captured_output() as told:
                wanted = config_pb2.CallableOptions(target=[node.op.name for node in nodes])
                session._make_callable_from_options(wanted)  # places the nodes without running them
        own = {node.op.name for node in nodes}
        placed = re.findall(r"^(\S+): \(\w+\): (\S+)$", told.getvalue(), re.MULTILINE)
        return sorted({(name, short(device)) for name, device in placed if name in own})
