# Machine: T4
import tensorflow as tf

physical_devices = tf.config.experimental.list_physical_devices("GPU")
assert len(physical_devices) > 0, "Not enough GPU hardware devices available"
tf.config.experimental.set_memory_growth(physical_devices[0], True)
print(tf.config.experimental.get_memory_growth(physical_devices[0]))

# Output:
# True
