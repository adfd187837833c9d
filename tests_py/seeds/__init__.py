"""TensorFlow's pages on device configuration: their listings, unchanged, and every row of their Raises tables."""
