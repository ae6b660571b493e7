"""The code of processors in bundles: the levels that it is compiled for, how it is made, and which of it runs here."""
