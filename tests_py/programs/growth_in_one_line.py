# Machine: 4xA100-40GB
import tensorflow as tf

[tf.config.experimental.set_memory_growth(gpu, True) for gpu in tf.config.experimental.list_physical_devices("GPU")]
print(all(tf.config.experimental.get_memory_growth(g) for g in tf.config.list_physical_devices("GPU")))

# Output:
# True
