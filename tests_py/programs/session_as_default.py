import tensorflow.compat.v1 as tf

graph = tf.Graph()
with graph.as_default():
    x = tf.constant([[1.0], [2.0]])
session = tf.Session(graph=graph)
with session.as_default():
    print(x.eval().tolist(), tf.get_default_session() is session)
session.close()

# Output:
# [[1.0], [2.0]] True
