"""The command line."""


def main() -> None:
    """Run the command."""
    from adaptkry.cli.fit import main as run

    run()
