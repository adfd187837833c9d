import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
x = tf.placeholder(tf.float32, shape=[None, 2], name="x")
w = tf.constant([[2.0], [1.0]])
y = tf.matmul(x, w)
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    print(sess.run(y, feed_dict={x: np.array([[1.0, 2.0], [3.0, 4.0]])}))

# Output:
# [[ 4.]
#  [10.]]
