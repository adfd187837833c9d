# Machine: 4xA100-40GB
import tensorflow.compat.v1 as tf
from tensorflow.python.client import device_lib

tf.disable_v2_behavior()

num_gpus = len([d for d in device_lib.list_local_devices() if d.device_type == "GPU"])
print("Using %d GPUs" % num_gpus)

# Output:
# Using 4 GPUs
