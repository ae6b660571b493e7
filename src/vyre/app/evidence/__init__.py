"""Evidence bundles: ``writing`` makes them, ``bundle`` reads them, ``replaying`` runs them again, ``claims`` judges."""
