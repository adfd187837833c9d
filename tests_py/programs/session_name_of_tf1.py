# Machine: T4
import tensorflow as tf

try:
    sess = tf.Session(config=tf.ConfigProto(allow_soft_placement=True))
except AttributeError:
    tf.compat.v1.disable_eager_execution()
    sess = tf.compat.v1.Session(config=tf.compat.v1.ConfigProto(allow_soft_placement=True))
print(sess.run(tf.constant([1.0, 2.0])))

# Output:
# [1. 2.]
