# Machine: T4
# TensorFlow: it logs elsewhere
import tensorflow as tf

tf.debugging.set_log_device_placement(True)
a = tf.constant([[1.0, 2.0]])
b = tf.constant([[3.0], [4.0]])
print(tf.matmul(a, b).numpy())

# Output:
# [[11.]]
# Errors:
# Executing op _EagerConst in device /job:localhost/replica:0/task:0/device:GPU:0
# Executing op _EagerConst in device /job:localhost/replica:0/task:0/device:GPU:0
# Executing op MatMul in device /job:localhost/replica:0/task:0/device:GPU:0
