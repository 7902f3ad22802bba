"""Node agents: plain clients of any API server that play kubelets, by pretending or by really running commands."""
