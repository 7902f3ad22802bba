"""The three patches that describe a change: JSON patch, merge patch and strategic merge patch."""
