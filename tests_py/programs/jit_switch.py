import tensorflow as tf

tf.config.optimizer.set_jit(True)
tf.config.optimizer.set_experimental_options({"constant_folding": True, "auto_mixed_precision": False})
print(bool(tf.config.optimizer.get_jit()), sorted(tf.config.optimizer.get_experimental_options()))

# Output:
# True ['auto_mixed_precision', 'constant_folding', 'disable_meta_optimizer', 'disable_model_pruning']
