"""The work that a result needs of a program's: pairs that masks leave, latents absorbed where that is less."""
