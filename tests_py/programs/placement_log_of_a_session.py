# Machine: T4
# TensorFlow: it logs elsewhere, in another format
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
a = tf.constant([[1.0, 2.0]], name="a")
b = tf.constant([[3.0], [4.0]], name="b")
c = tf.matmul(a, b, name="c")
sess = tf.Session(config=tf.ConfigProto(log_device_placement=True))
print(sess.run(c))

# Output:
# [[11.]]
# Errors:
# Device mapping:
# /job:localhost/replica:0/task:0/gpu:0 -> device: 0, name: Tesla T4, pci bus id: 0000:17:00.0
# b: /job:localhost/replica:0/task:0/gpu:0
# a: /job:localhost/replica:0/task:0/gpu:0
# c: /job:localhost/replica:0/task:0/gpu:0
