# Machine: T4
import tensorflow as tf

version = tuple(int(part) for part in tf.__version__.split(".")[:2])
gpus = tf.config.list_physical_devices("GPU") if version >= (2, 1) else tf.config.experimental.list_physical_devices("GPU")
print(len(gpus), version > (2, 4))

# Output:
# 1 True
