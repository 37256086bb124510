"""What can be set, the settings file, and what is wrong with it."""
