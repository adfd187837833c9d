# Machine: 2xT4
# TensorFlow: its imaginary GPUs compute nothing
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
c = []
for d in ["/device:GPU:0", "/device:GPU:1"]:
    with tf.device(d):
        a = tf.constant([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], shape=[2, 3])
        b = tf.constant([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], shape=[3, 2])
        c.append(tf.matmul(a, b))
with tf.device("/cpu:0"):
    total = tf.add_n(c)
sess = tf.Session(config=tf.ConfigProto(log_device_placement=False))
print(sess.run(total))

# Output:
# [[ 44.  56.]
#  [ 98. 128.]]
