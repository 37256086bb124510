"""Any server that speaks the OpenAI protocol."""
