import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
for _ in range(2):
    tf.reset_default_graph()
    total = tf.add(tf.constant(1.0, name="one"), tf.constant(2.0, name="two"), name="total")
    with tf.Session() as sess:
        print(total.name, sess.run(total))

# Output:
# total:0 3.0
# total:0 3.0
