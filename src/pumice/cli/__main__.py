"""`python -m pumice.cli`, for where the script is not on the path."""

from pumice.cli.main import main

main()
