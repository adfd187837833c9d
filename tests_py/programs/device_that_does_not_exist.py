# Machine: T4
import tensorflow as tf

tf.config.set_soft_device_placement(False)
try:
    with tf.device("/GPU:2"):
        tf.add([1.0], [2.0])
except (RuntimeError, ValueError, tf.errors.InvalidArgumentError) as error:
    print(type(error).__name__, "/device:GPU:2" in str(error) or "GPU:2" in str(error))

# Output:
# InvalidArgumentError True
