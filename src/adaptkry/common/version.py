"""The version of adaptkry."""

VERSION = __version__ = "0.2.0.dev0"
