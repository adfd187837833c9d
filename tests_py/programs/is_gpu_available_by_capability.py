# Machine: P100-16GB
import tensorflow as tf

print(tf.test.is_gpu_available(cuda_only=True))
print(tf.test.is_gpu_available(cuda_only=False, min_cuda_compute_capability=None))
print(tf.test.is_gpu_available(True, (7, 0)))

# Output:
# True
# True
# False
# Errors:
# WARNING:tensorflow:From ...is_gpu_available_by_capability.py:4: is_gpu_available (from gpuconf.compat.v2.test) is deprecated and will be removed in a future version.
# Instructions for updating:
# Use `tf.config.list_physical_devices('GPU')` instead.
