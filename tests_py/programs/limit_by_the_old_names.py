# Machine: T4
import tensorflow as tf

gpus = tf.config.experimental.list_physical_devices("GPU")
if gpus:
    try:
        tf.config.experimental.set_virtual_device_configuration(
            gpus[0], [tf.config.experimental.VirtualDeviceConfiguration(memory_limit=4096)]
        )
    except RuntimeError as e:
        print(e)
print(tf.config.experimental.get_virtual_device_configuration(gpus[0]))
print(tf.config.experimental.list_logical_devices("GPU"))

# Output:
# [LogicalDeviceConfiguration(memory_limit=4096, experimental_priority=None, experimental_device_ordinal=None)]
# [LogicalDevice(name='/device:GPU:0', device_type='GPU')]
