"""How values show themselves in notebooks: small pieces of HTML without scripts, in the colours of the page."""
