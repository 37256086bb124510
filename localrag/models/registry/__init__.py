"""Which models exist, where they come from, and the folder that holds them."""
