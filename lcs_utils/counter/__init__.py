"""The object counter, an instrument of its own: a net trained only on renders and corrupted renders."""
