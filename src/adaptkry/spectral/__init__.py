"""The mathematics: operators, bases, filters, spectra and theory."""
