"""What the engine knows about the future: `forward` runs it ahead under virtual time, over a cluster of its own."""
