"""Rules of advice on a run that was recorded: where the time of a step went that the network itself does not need."""
