import tensorflow.compat.v1 as tf
from tensorflow.python.framework import ops

tf.disable_v2_behavior()
ops.reset_default_graph()
tf.set_random_seed(1)
a = tf.constant(2.0, name="a")
with tf.Session() as sess:
    print(a.name, sess.run(a))

# Output:
# a:0 2.0
