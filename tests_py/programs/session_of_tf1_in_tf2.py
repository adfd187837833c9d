# Machine: T4
import tensorflow as tf

config = tf.compat.v1.ConfigProto(allow_soft_placement=True, log_device_placement=False)
config.gpu_options.allow_growth = True
with tf.compat.v1.Session(config=config, graph=tf.Graph()) as sess:
    x = tf.constant(3.0)
    with tf.device("/cpu:0"):
        print(sess.run(tf.add(x, x)))

# Output:
# 6.0
