"""What a text is made of: characters, words, sentences, language."""
