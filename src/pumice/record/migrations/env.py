"""What Alembic runs for each upgrade: on the connection that the store hands it, in one transaction."""

from alembic import context

connection = context.config.attributes["connection"]
context.configure(connection=connection, transactional_ddl=True, version_table="schema_version")
with context.begin_transaction():
    context.run_migrations()
