"""Companion to *Local Mechanisms of Compositional Generalization in Conditional Diffusion* (arXiv
2509.16447).
"""

__version__ = "0.1.0"
