# Machine: T4
# TensorFlow: its imaginary GPUs count no memory
import tensorflow as tf

if tf.config.list_physical_devices("GPU"):
    with tf.device("GPU:0"):
        first = tf.identity(tf.constant([1.0] * 1024))
        before = tf.config.experimental.get_memory_info("GPU:0")
        del first
    tf.config.experimental.reset_memory_stats("GPU:0")
    after = tf.config.experimental.get_memory_info("GPU:0")
    print(before["peak"] > 0, after["current"], after["peak"])

# Output:
# True 0 0
