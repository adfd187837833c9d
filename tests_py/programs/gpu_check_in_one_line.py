# Machine: T4
# TensorFlow: the CPU wheel is built without CUDA
import tensorflow as tf

print("GPU is", "available" if tf.test.is_built_with_cuda() and tf.config.list_physical_devices("GPU") else "NOT AVAILABLE")

# Output:
# GPU is available
