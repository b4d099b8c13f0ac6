"""`python -m lcs_utils.training`: train a net, a table's or the queue's nets; measure; `--help` says more."""

from lcs_utils.training.command import main

if __name__ == "__main__":
    main()
