"""`python -m provml`: the command line."""

from provml.cli import main

if __name__ == "__main__":
    main()
