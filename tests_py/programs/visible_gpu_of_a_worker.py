# Machine: 2xT4
# Environment: WORKER_ID=3
import os

import tensorflow as tf

worker_id = int(os.environ.get("WORKER_ID", 0))
gpus = tf.config.list_physical_devices("GPU")
tf.config.set_visible_devices(gpus[worker_id % len(gpus)], "GPU")
print("worker", worker_id, "uses", tf.config.get_visible_devices("GPU")[0].name)

# Output:
# worker 3 uses /physical_device:GPU:1
