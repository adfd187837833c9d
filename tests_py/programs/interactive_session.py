import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
sess = tf.InteractiveSession()
a = tf.constant(5.0)
b = tf.constant(6.0)
c = tf.add(a, b)
# We can just use 'c.eval()' without passing 'sess'
print(c.eval())
sess.close()

# Output:
# 11.0
