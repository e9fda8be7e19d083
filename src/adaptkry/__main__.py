"""`python -m adaptkry`."""

from adaptkry.cli.fit import main

if __name__ == "__main__":  # worker processes import this file under another name
    main()
