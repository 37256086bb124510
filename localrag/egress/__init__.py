"""The only door out: network guard, consent, redaction, audit, private documents."""
