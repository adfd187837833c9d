# Machine: 2xT4
import tensorflow as tf

with tf.device(tf.DeviceSpec(device_type="GPU", device_index=1)):
    x = tf.constant(1.0)
print(x.device)

# Output:
# /job:localhost/replica:0/task:0/device:GPU:1
