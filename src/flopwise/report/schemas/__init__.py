"""The keys of every JSON document that flopwise writes, their types and what they say."""
