"""``tf.get_logger`` and ``tf.compat.v1.logging``: TensorFlow's logger, with its format and where it writes."""

from __future__ import annotations

import logging

import gpuconf.compat.v1 as tf
import pytest
from script import run, run_well


def test_messages_go_to_stderr_from_warnings_on() -> None:
    done = run("""
        import gpuconf.compat.v1 as tf
        tf.logging.debug("a debug %s", 1)
        tf.logging.info("an info %s", 2)
        tf.logging.warn("a warning %s", 3)
        tf.logging.warning("another")
        tf.logging.error("an error %s", 4)
        tf.logging.fatal("the end %s", 5)
        tf.logging.log(tf.logging.WARN, "logged")
        tf.logging.TaskLevelStatusMessage("status")
        tf.logging.set_verbosity(tf.logging.INFO)
        tf.logging.info("shown %s", 6)
        tf.logging.set_verbosity("ERROR")
        tf.get_logger().warning("hidden")
        """)
    assert (done.code, done.stdout) == (0, "")
    assert done.stderr.splitlines() == [
        "WARNING:tensorflow:a warning 3",
        "WARNING:tensorflow:another",
        "ERROR:tensorflow:an error 4",
        "CRITICAL:tensorflow:the end 5",
        "WARNING:tensorflow:logged",
        "ERROR:tensorflow:status",
        "INFO:tensorflow:shown 6",
    ]


def test_a_program_that_configured_logging_gets_them_once() -> None:
    done = run("""
        import logging
        logging.basicConfig(format="%(name)s says %(message)s")
        import gpuconf.compat.v2 as tf
        tf.get_logger().error("this")
        print(tf.get_logger().handlers)
        """)
    assert (done.stdout, done.stderr) == ("[]\n", "tensorflow says this\n")


def test_some_messages_of_a_line() -> None:
    done = run("""
        import gpuconf.compat.v1 as tf
        for i in range(5):
            tf.logging.log_every_n(tf.logging.ERROR, "every %s", 2, i)
            tf.logging.log_first_n(tf.logging.ERROR, "first %s", 2, i)
            tf.logging.log_if(tf.logging.ERROR, "if %s", i > 3, i)
        """)
    assert [line.rpartition(":")[2] for line in done.stderr.splitlines()] == [
        "every 0",
        "first 0",
        "first 1",
        "every 2",
        "every 4",
        "if 4",
    ]


def test_nothing_is_set_up_before_it_is_used() -> None:
    out = run_well("""
        import logging
        import gpuconf.compat.v1, gpuconf.compat.v2
        print(logging.getLogger("tensorflow").handlers, logging.getLogger().handlers)
        """)
    assert out == "[] []\n"


def test_levels_are_pythons() -> None:
    names = ("DEBUG", "INFO", "WARN", "ERROR", "FATAL")
    assert [getattr(tf.logging, name) for name in names] == [getattr(logging, name) for name in names]
    for bad, kind in (("x", ValueError), (None, TypeError)):
        with pytest.raises(kind):
            tf.logging.set_verbosity(bad)  # type: ignore[arg-type]
    with pytest.raises(NotImplementedError):
        tf.logging.flush()
