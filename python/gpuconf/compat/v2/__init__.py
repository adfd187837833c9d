# SPDX-License-Identifier: Apache-2.0
"""``tf.compat.v2``: TensorFlow as a program sees it that configures GPUs. Use it as ``import gpuconf.compat.v2 as tf``.

Operations run eagerly, or build graphs inside ``Graph.as_default()``, in sessions, and after
``compat.v1.disable_v2_behavior()``. ``config`` is the module ``gpuconf.config``, and ``__version__`` is that of the
TensorFlow release that gpuconf is compared with.

>>> import gpuconf.compat.v2 as tf
>>> tf.__version__
'2.21.0'
>>> [gpu.name for gpu in tf.config.list_logical_devices("GPU")]
['/device:GPU:0', '/device:GPU:1']
"""
