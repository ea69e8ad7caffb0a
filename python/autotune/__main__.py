"""`python -m autotune`: the command that came with the package."""

import os
import sys
from typing import NoReturn

from .command import command_environment, command_path


def main() -> NoReturn:
    path = command_path()
    os.execve(path, ["autotune", *sys.argv[1:]], command_environment())


if __name__ == "__main__":
    main()
