"""The version of adaptkry."""

VERSION = "0.1.0"
