"""Shared by all packages: input checks, name lookup, files, result rows, timing, memory."""

import logging

# Every package of the library imports this one first: its messages are hidden unless the user configures logging.
logging.getLogger("adaptkry").addHandler(logging.NullHandler())
