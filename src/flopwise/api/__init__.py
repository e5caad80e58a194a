"""The public functions whose answers have no folder of their own yet."""
