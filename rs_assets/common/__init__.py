"""What every other package may use: files, names, the home folder, background threads."""
