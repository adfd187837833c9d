import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
a = tf.constant(1.0)
b = tf.constant(2.0)
with tf.control_dependencies([a]):
    c = tf.identity(b)
with tf.Session() as sess:
    print(sess.run([c, b]), [op.name for op in c.op.control_inputs])

# Output:
# [np.float32(2.0), np.float32(2.0)] ['Const']
