import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
session_conf = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
sess = tf.Session(graph=tf.get_default_graph(), config=session_conf)
print(session_conf.intra_op_parallelism_threads, sess.graph is tf.get_default_graph())

# Output:
# 1 True
