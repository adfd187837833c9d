# Machine: 2xT4
import os

os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
import tensorflow as tf

if tf.test.gpu_device_name():
    print("GPU found")
else:
    print("No GPU found")

# Output:
# No GPU found
