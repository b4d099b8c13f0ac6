"""The web edition: `build` writes it, `figures` makes a page for each figure.

Its front page is `lcs_utils.live`.
"""
