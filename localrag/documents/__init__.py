"""Files into Documents: PDF, Markdown, HTML and plain text in any usual encoding."""
