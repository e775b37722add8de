"""What things are: data sets, tasks, runs and models as strict YAML and JSON. Never imports torch."""
