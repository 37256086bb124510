"""The command line: a module a command, heavy imports only inside the one that runs."""
