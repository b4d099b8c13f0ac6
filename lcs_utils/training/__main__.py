"""`python -m lcs_utils.training`: train one net, a table's or the queue's nets; measure; see `--help`."""

from lcs_utils.training.command import main

if __name__ == "__main__":
    main()
