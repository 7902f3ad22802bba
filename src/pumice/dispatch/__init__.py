"""Decisions to API calls: binds, evictions, status. The scheduler's only writer; what it learns returns as Changes."""
