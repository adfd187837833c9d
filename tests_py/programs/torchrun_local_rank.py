# Machine: 2xH100-80GB
# Environment: LOCAL_RANK=1
import os

import tensorflow as tf

local_rank = int(os.environ["LOCAL_RANK"])
gpus = tf.config.list_physical_devices("GPU")
tf.config.set_visible_devices(gpus[local_rank : local_rank + 1], "GPU")
print([gpu.name for gpu in tf.config.get_visible_devices("GPU")])

# Output:
# ['/physical_device:GPU:1']
