"""The version of adaptkry."""

VERSION = __version__ = "0.1.0"
