# Machine: T4
import tensorflow as tf

gpu = tf.config.list_physical_devices("GPU")[0]
tf.config.set_logical_device_configuration(gpu, [tf.config.LogicalDeviceConfiguration(memory_limit=1024)])
try:
    tf.config.experimental.set_memory_growth(gpu, True)
except ValueError as error:
    print(error)

# Output:
# Cannot set memory growth on device when virtual devices configured: /physical_device:GPU:0 has a logical device configuration
