"""Companion to *Local Mechanisms of Compositional Generalization in Conditional Diffusion* (arXiv
2509.16447).
"""

import os
import sys

__version__ = "0.1.0"

if os.environ.get("LCS_EXPERIMENTS"):  # here, so that every command knows them before it reads its arguments
    from lcs_utils import own

    try:
        own.load()
    except (OSError, TypeError, ValueError) as error:
        if sys.argv[0] != "-m":  # Python's value for it until the module has been found
            raise
        sys.exit(f"LCS_EXPERIMENTS: {error}")
