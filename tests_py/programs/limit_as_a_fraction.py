# Machine: A100-40GB
import tensorflow as tf

GPU_MEMORY_MB = 40960
FRACTION = 0.25

gpu = tf.config.list_physical_devices("GPU")[0]
limit = int(GPU_MEMORY_MB * FRACTION)
tf.config.set_logical_device_configuration(gpu, [tf.config.LogicalDeviceConfiguration(memory_limit=limit)])
print(tf.config.get_logical_device_configuration(gpu)[0].memory_limit)

# Output:
# 10240
