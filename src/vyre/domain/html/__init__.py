"""Views of values for notebooks: small pieces of HTML without scripts, in the colours of the page."""
