# TensorFlow: the CPU wheel is built without CUDA
import tensorflow as tf

print("CUDA:", tf.test.is_built_with_cuda(), "ROCm:", tf.test.is_built_with_rocm(), "GPU:", tf.test.is_built_with_gpu_support())

# Output:
# CUDA: True ROCm: False GPU: True
