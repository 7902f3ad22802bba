"""The JobTemplate controller: a template's status names the Jobs that were made from it."""
