"""Evidence bundles.

``recording`` runs what is recorded, ``writing`` makes bundles and ``bundle`` reads them, ``replaying`` runs them again,
``claims`` judges measurements.
"""
