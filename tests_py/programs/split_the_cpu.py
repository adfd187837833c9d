import tensorflow as tf

physical_devices = tf.config.list_physical_devices("CPU")
assert len(physical_devices) == 1, "No CPUs found"
tf.config.set_logical_device_configuration(
    physical_devices[0], [tf.config.LogicalDeviceConfiguration(), tf.config.LogicalDeviceConfiguration()]
)
print(tf.config.list_logical_devices("CPU"))

# Output:
# [LogicalDevice(name='/device:CPU:0', device_type='CPU'), LogicalDevice(name='/device:CPU:1', device_type='CPU')]
