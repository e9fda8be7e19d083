"""One small file per item: `measurements` declares what is measured, `section` what is shown."""
