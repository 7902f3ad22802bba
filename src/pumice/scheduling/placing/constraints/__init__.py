"""What Kubernetes lets pods and nodes ask of each other, in columns over nodes: shared by the plugins that filter and score."""
