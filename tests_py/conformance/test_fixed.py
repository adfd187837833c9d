"""Cases found by the comparison with TensorFlow: each was different once. Named after what they test."""

from __future__ import annotations

import gpuconf as tf


def test_numbers_of_other_libraries_are_numbers(two_gpus: None) -> None:
    class Number:
        def __index__(self) -> int:
            return 3

    tf.config.threading.set_intra_op_parallelism_threads(Number())  # type: ignore[arg-type]
    assert tf.config.threading.get_intra_op_parallelism_threads() == 3
