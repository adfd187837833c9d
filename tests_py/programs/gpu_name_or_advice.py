# Machine: H100-80GB
import tensorflow as tf

if tf.test.gpu_device_name():
    print("Default GPU Device: {}".format(tf.test.gpu_device_name()))
else:
    print("Please install GPU version of TF")

# Output:
# Default GPU Device: /device:GPU:0
