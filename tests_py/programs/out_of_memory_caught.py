# Machine: T4
# TensorFlow: its imaginary GPUs have no limit
import tensorflow as tf

gpu = tf.config.list_physical_devices("GPU")[0]
tf.config.set_logical_device_configuration(gpu, [tf.config.LogicalDeviceConfiguration(memory_limit=1)])


def attempt(batch_size):
    with tf.device("/GPU:0"):
        x = tf.constant([[0.5] * batch_size] * batch_size)
        return tf.matmul(x, x)


batch_size = 1024
while True:
    try:
        attempt(batch_size)
        break
    except tf.errors.ResourceExhaustedError:
        print("batch size", batch_size, "does not fit")
        batch_size //= 2
print("using batch size", batch_size)

# Output:
# batch size 1024 does not fit
# batch size 512 does not fit
# using batch size 256
