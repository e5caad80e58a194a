"""What each layer is among the operators of the house, and where its settings are."""
