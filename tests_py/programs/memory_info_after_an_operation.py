# Machine: T4
# TensorFlow: its imaginary GPUs count no memory
import tensorflow as tf

with tf.device("/GPU:0"):
    x = tf.constant([[1.0] * 256] * 256)
    y = tf.matmul(x, x)
info = tf.config.experimental.get_memory_info("GPU:0")
print(sorted(info), info["current"] >= 2 * 256 * 256 * 4, info["peak"] >= info["current"])
print("Peak memory: %.2f MiB" % (info["peak"] / 1024**2))

# Output:
# ['current', 'peak'] True True
# Peak memory: 0.50 MiB
