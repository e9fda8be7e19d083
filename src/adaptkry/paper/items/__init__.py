"""One module per item: `measurements` returns what to measure, `section` the tables, charts and notes."""
