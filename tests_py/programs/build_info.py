# TensorFlow: the CPU wheel names no CUDA
import tensorflow as tf

info = tf.sysconfig.get_build_info()
print(info["is_cuda_build"], "cuda_version" in info, "cudnn_version" in info)

# Output:
# True True True
