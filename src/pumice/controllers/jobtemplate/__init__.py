"""The JobTemplate controller: a template's status names the Jobs that were made from it.

`plan` compares the status with the Jobs that are there, pure; `loop` gathers them.
"""
