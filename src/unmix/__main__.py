"""`python -m unmix` is `unmix`."""

from unmix.cli import main

main()
