import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
sess = tf.Session()
one = tf.constant(1.0)
sess.close()
try:
    sess.run(one)
except RuntimeError as error:
    print(error)

# Output:
# Attempted to use a closed Session.
