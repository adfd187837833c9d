# Machine: 2xT4
import tensorflow.compat.v2 as tf

gpus = tf.config.experimental.list_physical_devices("GPU")
if gpus:
    tf.config.experimental.set_visible_devices([], "GPU")
with tf.device("CPU"):
    print(tf.constant(1.0).numpy(), len(gpus))

# Output:
# 1.0 2
