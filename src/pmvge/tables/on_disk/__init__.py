"""Dense features in memory-mapped ``.npy`` files."""
