"""TensorFlow's pages on device configuration: their listings as they stand there, and every row of their Raises tables."""
