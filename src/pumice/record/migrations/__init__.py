"""The schema's versions, oldest first; Alembic applies those that a database lacks. A version that was released never changes."""
