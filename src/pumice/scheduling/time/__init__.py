"""When work ends, when a gang that waits can start at the latest, and who may pass it meanwhile.

Read in this order: `estimates` (how long a gang runs, and who says so), `run_times` (what the engine has learned of past runs), `profile` (what
running work gives back, and when), `timeline` (what is free at each moment beside reservations), `later` (the real placer in the room of a later moment), `reservations` (what is kept for whom, in memory),
`planning` (finding and keeping reservations), `passing` (what is left for everybody else). The plugin `reservation` puts them to work.
`forward` runs the engine ahead under virtual time, over a cluster of its own; `forecast` does so from a live cluster to say when gangs will start
(`stand_ins` are the pods of those that have none yet), and `accuracy` remembers how wrong estimates and forecasts were.
"""
