"""The Queue controller: states, Commands, what a parent does to its children, and true counts of the groups in a queue.

A cascade is no action of the parent: each queue follows its own parent, so that a cascade that was cut short goes on by itself.

    (none) --> Open --CloseQueue, or the parent closes--> Closing --no group is left--> Closed
                ^                                            |                            |
                +-----OpenQueue, or the parent opens what it had closed-------------------+
"""
