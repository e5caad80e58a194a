"""Model formats that are read without the library that writes them; a folder for each."""
