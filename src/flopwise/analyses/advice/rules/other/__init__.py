"""Changes that make another network, which is to be trained again."""
