"""Decisions to API calls: binds, evictions, status. The scheduler's only writer; what it learns returns as Changes.

Read `dispatcher` first: it takes one cycle's decisions, holds them against what has changed meanwhile (`revalidation`) and hands them to
`binder` (whole gangs, after their `preparations`: `volumes`, `devices`, `locks`), `evictor`, `gates` and `statuses` with `pod_conditions`, `topics`, `forming`, `queue_holdings` and `reservation_note`. `bind_backoff`
slows down gangs whose attempts fail. `takeover` runs when leadership begins, and `memory_store` keeps the scheduler's persistent memory.
"""
