"""What notebooks 01, 02 and 11 compute and draw: small exact examples of the theory, each with its figure."""
