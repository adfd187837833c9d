# Machine: T4
import tensorflow as tf

tf.config.set_soft_device_placement(True)
with tf.device("/GPU:9"):
    x = tf.matmul([[1.0, 2.0]], [[3.0], [4.0]])
print(x.device, tf.config.get_soft_device_placement())

# Output:
# /job:localhost/replica:0/task:0/device:GPU:0 True
