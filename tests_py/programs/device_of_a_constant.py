# Machine: 2xT4
import tensorflow as tf

with tf.device("/GPU:1"):
    a = tf.constant([[1.0, 2.0], [3.0, 4.0]])
print(a.device)
with tf.device("CPU:0"):
    b = tf.constant([[1.0, 2.0], [3.0, 4.0]])
print(b.device)

# Output:
# /job:localhost/replica:0/task:0/device:GPU:1
# /job:localhost/replica:0/task:0/device:CPU:0
