# SPDX-License-Identifier: Apache-2.0
"""``tf.compat.v1``: graphs and sessions. ``config`` is the module ``gpuconf.config``.

The operations in this module always build graphs. Those of ``gpuconf``, such as ``gpuconf.constant``, always run
eagerly. There is no switch between the two.

>>> import gpuconf.compat.v1 as tf
>>> with tf.Graph().as_default(), tf.Session() as session:
...     session.run(tf.matmul([[1.0, 2.0]], [[3.0], [4.0]]))
array([[11.]], dtype=float32)
"""
