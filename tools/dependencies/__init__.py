"""What penstock is made of: which jars, under which licences, and what is known against them."""
