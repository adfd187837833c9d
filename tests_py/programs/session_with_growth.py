# Machine: T4
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

config = tf.ConfigProto()
config.gpu_options.allow_growth = True
sess = tf.Session(config=config)
a = tf.constant([1.0, 2.0, 3.0], name="a")
with tf.device("/cpu:0"):
    b = tf.add(a, a)
print(sess.run(b))
sess.close()

# Output:
# [2. 4. 6.]
