# Machine: T4
import tensorflow as tf

if hasattr(tf.config, "list_physical_devices"):
    gpus = tf.config.list_physical_devices("GPU")
else:
    gpus = tf.config.experimental.list_physical_devices("GPU")
if hasattr(tf.config, "set_logical_device_configuration"):
    print("new names")
print(len(gpus))

# Output:
# new names
# 1
