"""`python -m adaptkry`."""

from adaptkry.cli import main

main()
