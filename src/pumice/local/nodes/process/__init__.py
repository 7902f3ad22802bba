"""A node that really runs the containers' commands, as processes of this machine. Images are not pulled."""
