# Machine: T4
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
with tf.device("/gpu:7"):
    a = tf.constant([[1.0, 2.0]], name="a")
with tf.device("/cpu:0"):
    b = tf.identity(a)
with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as sess:
    print(sess.run(b))

# Output:
# [[1. 2.]]
