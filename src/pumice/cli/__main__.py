"""`python -m pumice.cli`, for where the script is not on the path."""

from pumice.cli.entry import main

main()
