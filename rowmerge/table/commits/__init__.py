"""The commit protocol that both table formats share."""
