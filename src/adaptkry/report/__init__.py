"""Reports: charts, the HTML page, inspection and the demo."""
