"""`python -m lcs_utils.training`: train one net, a table's or the queue's nets; measure; see `--help`."""

import sys


def main(arguments: list[str] | None = None) -> None:
    """The command line; Ctrl-C ends it in one line, also while the rest is imported, which takes seconds."""
    words = sys.argv[1:] if arguments is None else arguments
    try:
        from lcs_utils.training import asked

        if not asked.is_other(words):
            asked.read(words)  # what it refuses, it refuses at once

        from lcs_utils.training import command

        command.main(words)
    except KeyboardInterrupt as stop:
        said = "".join(f": {words}" for words in stop.args)
        print(f"stopped{said}; the same command goes on from there", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
