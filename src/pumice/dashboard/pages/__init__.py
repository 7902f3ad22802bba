"""One module a page: what it shows of a view, as plain values for its template. `page` says what a page is given."""
