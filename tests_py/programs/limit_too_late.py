# Machine: T4
import tensorflow as tf

gpus = tf.config.list_physical_devices("GPU")
print(len(tf.config.list_logical_devices("GPU")))
try:
    tf.config.set_logical_device_configuration(gpus[0], [tf.config.LogicalDeviceConfiguration(memory_limit=2048)])
except RuntimeError as e:
    print(e)

# Output:
# 1
# Virtual devices cannot be modified after being initialized: the runtime was initialized by ...limit_too_late.py:5 (list_logical_devices). Set logical devices before the first call that needs a device, or call gpuconf.reset() first.
