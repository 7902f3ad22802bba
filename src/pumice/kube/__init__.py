"""A client of an API server: verbs, list and watch, informers, over any Transport."""
