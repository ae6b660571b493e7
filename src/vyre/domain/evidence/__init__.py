"""Evidence: the record of a run or a measurement that somebody else can check."""
