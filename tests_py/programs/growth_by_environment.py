# Machine: T4
import os

os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"

import tensorflow as tf

print(len(tf.config.list_logical_devices("GPU")))
print(tf.config.experimental.get_memory_growth(tf.config.list_physical_devices("GPU")[0]))

# Output:
# 1
# None
