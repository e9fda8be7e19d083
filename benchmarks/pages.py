"""Helpers of the modules that write tables from result rows to documents."""


def newest(rows: list[dict], *keys: str) -> list[dict]:
    """Return the last row of each combination of keys."""
    return list({tuple(row[key] for key in keys): row for row in rows}.values())


def replace_between(text: str, begin: str, end: str, lines: list[str]) -> str:
    """Return the text with the part between two markers replaced by lines."""
    head, rest = text.split(begin)
    return head + begin + "\n".join(lines) + "\n" + end + rest.split(end, 1)[1]
