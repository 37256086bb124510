"""Files into Documents: PDF, Office, mail, tables, pictures and text, each by its own reader."""
