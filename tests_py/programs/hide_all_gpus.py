# Machine: 2xT4
import tensorflow as tf

tf.config.set_visible_devices([], "GPU")
print(tf.config.get_visible_devices())
print(tf.config.list_logical_devices("GPU"))

# Output:
# [PhysicalDevice(name='/physical_device:CPU:0', device_type='CPU')]
# []
