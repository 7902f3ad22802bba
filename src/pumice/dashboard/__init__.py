"""The dashboard: pages over the scheduler's view and the record, for people who would rather look than read.

It keeps no truth of its own. `source` follows the leader's stream of changes; `answers` asks it and the record what a page needs beyond
that; `people` and `sessions` say who looks and what they may see, by the API server's reviews; `pages` turn a view into what a
template prints (pure functions, one module a page); `rendering` makes HTML of it, whole or in the parts that changed; `server` has
the routes, `guard` what protects them; `actions` is what people do as themselves, and `acting` has its routes. Read in this order.
"""
