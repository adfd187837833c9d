# Machine: 2xT4
import tensorflow as tf

try:
    gpus = tf.config.list_physical_devices("GPU")
except AttributeError:  # TensorFlow 2.0
    gpus = tf.config.experimental.list_physical_devices("GPU")
print(len(gpus))

# Output:
# 2
