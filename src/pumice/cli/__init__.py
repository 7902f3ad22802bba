"""The command line: it parses words, calls what the other packages offer, and prints."""
