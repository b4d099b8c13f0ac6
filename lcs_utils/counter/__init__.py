"""The object counter, an instrument of its own: a net that learned from renders and spoiled renders alone."""
