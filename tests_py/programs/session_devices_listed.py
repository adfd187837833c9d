# Machine: 2xT4
import tensorflow.compat.v1 as tf

with tf.Session() as sess:
    devices = sess.list_devices()
for d in devices:
    print(d.name)

# Output:
# /job:localhost/replica:0/task:0/device:CPU:0
# /job:localhost/replica:0/task:0/device:GPU:0
# /job:localhost/replica:0/task:0/device:GPU:1
