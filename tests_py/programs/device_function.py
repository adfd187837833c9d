import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()


def pin(op):
    return "/cpu:0" if op.type == "Const" else "/device:CPU:0"


with tf.device(pin):
    a = tf.constant([1.0], name="a")
    b = tf.add(a, a, name="b")
print(a.device.lower()[-5:], b.op.name)

# Output:
# cpu:0 b
