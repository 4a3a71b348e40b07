"""Commands carried out: plan, let Spark find and write the rows, commit, and begin again when somebody else was faster."""
