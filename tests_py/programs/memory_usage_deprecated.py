# Machine: T4
# TensorFlow: its imaginary GPUs count no memory
import tensorflow as tf

with tf.device("/GPU:0"):
    x = tf.identity(tf.constant([1.0] * 64))
print(tf.config.experimental.get_memory_usage("GPU:0"))

# Output:
# 256
