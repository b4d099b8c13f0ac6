"""Companion to *Local Mechanisms of Compositional Generalization in Conditional Diffusion* (arXiv
2509.16447).
"""

import os

__version__ = "0.1.0"

if os.environ.get("LCS_EXPERIMENTS"):  # here, so that every command knows them before it reads its arguments
    from lcs_utils import own

    own.load()
