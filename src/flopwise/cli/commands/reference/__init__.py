"""Commands that say what flopwise itself knows: a file for each, as in the room around it."""
