"""`python -m lcs_utils.counter`: render its scenes, train the counter, measure how exact it is."""

from lcs_utils.counter.command import main

if __name__ == "__main__":
    main()
