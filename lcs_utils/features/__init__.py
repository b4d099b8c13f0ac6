"""Features of a net under conditions (eq. (3), App. E.4): captured by hooks, measured beside their
controls.
"""

from lcs_utils.features.capture import NetResponse, Space, find_layers
from lcs_utils.features.directions import cosine_similarity, mean_difference_vectors, off_diagonal

__all__ = [
    "NetResponse",
    "Space",
    "cosine_similarity",
    "find_layers",
    "mean_difference_vectors",
    "off_diagonal",
]
