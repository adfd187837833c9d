# Machine: T4
import tensorflow as tf

try:
    devices = tf.config.experimental_list_devices()
except AttributeError:
    devices = [device.name for device in tf.config.list_logical_devices()]
print(len(devices))

# Output:
# 2
