# Machine: T4
import tensorflow as tf

gpu = tf.config.list_physical_devices("GPU")[0]
try:
    tf.config.set_logical_device_configuration(gpu, [tf.config.LogicalDeviceConfiguration()])
except ValueError as error:
    print(error)

# Output:
# Setting memory limit is required for GPU virtual devices: entry 0 has no memory_limit. Set memory_limit, in MiB, in every LogicalDeviceConfiguration
