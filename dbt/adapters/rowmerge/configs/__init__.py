"""Configuration: the profile, `catalogs.yml`, the configs of models, and their contracts."""
