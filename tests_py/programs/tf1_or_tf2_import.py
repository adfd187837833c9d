# Machine: T4
try:
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()
except ImportError:
    import tensorflow as tf

with tf.Session() as sess:
    print(sess.run(tf.constant(7)))

# Output:
# 7
