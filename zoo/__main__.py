"""``python -m zoo`` is the command ``zoo``."""

import sys

from zoo.cli import main

if __name__ == "__main__":
    sys.exit(main())
