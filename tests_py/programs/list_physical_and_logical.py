# Machine: 2xA100-40GB
import tensorflow as tf

physical_gpus = tf.config.experimental.list_physical_devices("GPU")
logical_gpus = tf.config.experimental.list_logical_devices("GPU")
print(f"{len(physical_gpus)} Physical GPUs, {len(logical_gpus)} Logical GPUs")

# Output:
# 2 Physical GPUs, 2 Logical GPUs
