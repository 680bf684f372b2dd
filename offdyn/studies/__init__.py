"""Studies: every run of a table or figure as cohorts that any number of processes and machines can share."""
