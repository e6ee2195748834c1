"""`python -m kernelwright.server` is `kernelwright server`: what an editor starts."""

import sys

from kernelwright.server.cli.main import main

sys.exit(main(["server", *sys.argv[1:]]))
