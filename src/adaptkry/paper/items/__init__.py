"""One small file an item: `jobs` says what is measured, `section` what is shown."""
