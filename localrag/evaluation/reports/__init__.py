"""What an evaluation comes to, for people and for programs."""
