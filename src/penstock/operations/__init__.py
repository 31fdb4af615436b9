"""What a person does with a running penstock, without saying how: the command line and the console both call it."""
