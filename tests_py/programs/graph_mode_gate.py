import tensorflow as tf

print(tf.executing_eagerly())
tf.compat.v1.disable_v2_behavior()
print(tf.compat.v1.executing_eagerly())

# Output:
# True
# False
