# Machine: 2xT4
import tensorflow as tf

if tf.test.is_gpu_available():
    print("training on the GPU")
else:
    print("training on the CPU")

# Output:
# training on the GPU
# Errors:
# WARNING:tensorflow:From ...is_gpu_available_old.py:4: is_gpu_available (from gpuconf.compat.v2.test) is deprecated and will be removed in a future version.
# Instructions for updating:
# Use `tf.config.list_physical_devices('GPU')` instead.
