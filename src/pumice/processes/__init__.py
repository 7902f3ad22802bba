"""The wiring: which parts make up the scheduler, the controllers, the webhooks and the embedded cluster."""
