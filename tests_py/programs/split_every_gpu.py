# Machine: 2xT4
import tensorflow as tf

for gpu in tf.config.list_physical_devices("GPU"):
    tf.config.set_logical_device_configuration(gpu, [tf.config.LogicalDeviceConfiguration(memory_limit=2000)] * 3)
print([device.name for device in tf.config.list_logical_devices("GPU")])

# Output:
# ['/device:GPU:0', '/device:GPU:1', '/device:GPU:2', '/device:GPU:3', '/device:GPU:4', '/device:GPU:5']
