"""``python -m dmlcpu``: the command line."""

from dmlcpu.cli import main

if __name__ == "__main__":
    main()
