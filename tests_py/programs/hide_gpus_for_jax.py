# Machine: T4
import tensorflow as tf

# Ensure TF does not see GPU and grab all GPU memory.
tf.config.experimental.set_visible_devices([], "GPU")


def main():
    dataset = tf.constant([1.0, 2.0, 3.0])
    print(dataset.device, tf.config.experimental.get_visible_devices("GPU"))


if __name__ == "__main__":
    main()

# Output:
# /job:localhost/replica:0/task:0/device:CPU:0 []
