# Machine: 2xT4
import tensorflow as tf

physical_devices = tf.config.list_physical_devices("GPU")
tf.config.experimental.set_memory_growth(physical_devices[0], True)
try:
    tf.config.list_logical_devices("GPU")
except ValueError as error:
    print(error)

# Output:
# Memory growth cannot differ between GPU devices: /physical_device:GPU:0 has True, /physical_device:GPU:1 has None. Set the same value for all of them, or hide some with set_visible_devices
