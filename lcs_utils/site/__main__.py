"""`python -m lcs_utils.site`: write the web edition; `--help` says more."""

import sys

from lcs_utils.site.build import main

if __name__ == "__main__":
    sys.exit(main())
